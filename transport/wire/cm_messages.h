#pragma once

// The messages of the InfiniBand connection manager: MADs of class 7, version
// 2, method Send; the attribute says which. A field that shares its word with
// others has accessors.

#include <cstddef>
#include <cstdint>

#include "transport/base/ids.h"
#include "transport/base/psn.h"
#include "transport/wire/address.h"
#include "transport/wire/be.h"
#include "transport/wire/mad.h"

namespace urnic::wire {

inline constexpr uint8_t kCmClassVersion = 2;

//= IBTA 16.7.1: the attribute ID tells which CM message a MAD is
inline constexpr uint16_t kCmReqAttribute = 0x0010;
inline constexpr uint16_t kCmMraAttribute = 0x0011;
inline constexpr uint16_t kCmRejAttribute = 0x0012;
inline constexpr uint16_t kCmRepAttribute = 0x0013;
inline constexpr uint16_t kCmRtuAttribute = 0x0014;
inline constexpr uint16_t kCmDreqAttribute = 0x0015;
inline constexpr uint16_t kCmDrepAttribute = 0x0016;
inline constexpr uint16_t kCmSidrReqAttribute = 0x0017;
inline constexpr uint16_t kCmSidrRepAttribute = 0x0018;
inline constexpr uint16_t kCmLapAttribute = 0x0019;
inline constexpr uint16_t kCmAprAttribute = 0x001a;

//= IBTA 12.6: each CM message has a fixed room for private data
inline constexpr size_t kReqPrivateBytes = 92;
inline constexpr size_t kMraPrivateBytes = 222;
inline constexpr size_t kRejPrivateBytes = 148;
inline constexpr size_t kRejAriBytes = 72;
inline constexpr size_t kRepPrivateBytes = 196;
inline constexpr size_t kRtuPrivateBytes = 224;
inline constexpr size_t kDreqPrivateBytes = 220;
inline constexpr size_t kDrepPrivateBytes = 224;
inline constexpr size_t kSidrReqPrivateBytes = 216;
inline constexpr size_t kSidrRepPrivateBytes = 136;
inline constexpr size_t kSidrRepInfoBytes = 72;

//= IBTA 12.6.6, 12.6.7: an MRA or REJ tells which message it answers
inline constexpr uint8_t kCmMessageReq = 0;
inline constexpr uint8_t kCmMessageRep = 1;
inline constexpr uint8_t kCmMessageOther = 2;

//= IBTA 12.6.7.2: the reasons for a REJ (only those that this code sends or
//= looks for)
inline constexpr uint16_t kRejNoResources = 3;
inline constexpr uint16_t kRejTimeout = 4;
inline constexpr uint16_t kRejInvalidCommId = 6;
inline constexpr uint16_t kRejInvalidServiceId = 8;
inline constexpr uint16_t kRejInvalidTransport = 9;
inline constexpr uint16_t kRejStaleConnection = 10;
inline constexpr uint16_t kRejConsumerDefined = 28;

// Of a REP: the alternate path of the REQ will not be used.
inline constexpr uint8_t kFailoverUnsupported = 1;

//= IBTA 12.11.2.1: the status codes of a SIDR_REP (only those that are used
//= here)
inline constexpr uint8_t kSidrSuccess = 0;
inline constexpr uint8_t kSidrUnsupported = 1;
inline constexpr uint8_t kSidrReject = 2;

//= IBTA 12.8.2.1: the status codes of an APR (only those that are used here)
inline constexpr uint8_t kAprInvalidCommId = 1;
inline constexpr uint8_t kAprUnsupported = 2;

// The LID of a port that has none, as Linux writes it.
inline constexpr uint16_t kPermissiveLid = 0xffff;

// One of the two paths that a REQ proposes: primary, alternate.
struct CmPath {
  Be<uint16_t> local_lid;
  Be<uint16_t> remote_lid;
  Gid local_gid;
  Gid remote_gid;
  Be<uint32_t> flow_rate;  // flow label (20), reserved (6), packet rate (6)
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t sl_local = 0;     // SL (4), subnet local (1), reserved (3)
  uint8_t ack_timeout = 0;  // local ACK timeout (5), reserved (3)

  uint32_t flow_label() const { return GetBits<12, 20>(flow_rate); }
  void set_flow_label(uint32_t v) { SetBits<12, 20>(flow_rate, v); }
  uint8_t packet_rate() const {
    return static_cast<uint8_t>(GetBits<0, 6>(flow_rate));
  }
  void set_packet_rate(uint8_t v) { SetBits<0, 6>(flow_rate, uint32_t{v}); }
  uint8_t service_level() const { return GetBits<4, 4>(sl_local); }
  void set_service_level(uint8_t v) { SetBits<4, 4>(sl_local, v); }
  bool subnet_local() const { return GetBits<3, 1>(sl_local) != 0; }
  void set_subnet_local(bool v) { SetBits<3, 1>(sl_local, v); }
  uint8_t ack_timeout_code() const { return GetBits<3, 5>(ack_timeout); }
  void set_ack_timeout_code(uint8_t v) { SetBits<3, 5>(ack_timeout, v); }
};
static_assert(sizeof(CmPath) == 44 && alignof(CmPath) == 1);
static_assert(offsetof(CmPath, flow_rate) == 36);
static_assert(offsetof(CmPath, ack_timeout) == 43);

//= IBTA 12.6.5: the format of a REQ (request for communication)
struct CmReq {
  static constexpr uint16_t kAttribute = kCmReqAttribute;
  MadHeader mad;
  Be<uint32_t> local_comm_id;
  Be<uint32_t> reserved_vendor;  // reserved (8), ECE vendor id (24)
  Be<uint64_t> service_id;
  Be<uint64_t> local_ca_guid;
  Be<uint32_t> reserved2;
  Be<uint32_t> local_qkey;
  Be<uint32_t> qpn_resources;        // QPN (24), responder resources (8)
  Be<uint32_t> eecn_depth;           // local EECN (24), initiator depth (8)
  Be<uint32_t> remote_eecn_timeout;  // remote EECN (24), remote CM response
                                     // timeout (5), transport service (2),
                                     // end-to-end flow control (1)
  Be<uint32_t> psn_timeout;          // PSN (24), local CM response timeout (5),
                                     // retry count (3)
  Be<uint16_t> pkey;
  uint8_t mtu_rnr = 0;      // MTU (4), RDC exists (1), RNR retry count (3)
  uint8_t retries_srq = 0;  // max CM retries (4), SRQ (1), extended
                            // transport (3)
  CmPath primary;
  CmPath alternate;
  uint8_t private_data[kReqPrivateBytes] = {};

  // Enhanced connection establishment: the vendor whose options are in the
  // attribute modifier. 0: no options.
  uint32_t ece_vendor_id() const { return GetBits<0, 24>(reserved_vendor); }
  void set_ece_vendor_id(uint32_t v) { SetBits<0, 24>(reserved_vendor, v); }
  Qpn local_qpn() const { return Qpn{GetBits<8, 24>(qpn_resources)}; }
  void set_local_qpn(Qpn v) { SetBits<8, 24>(qpn_resources, v.value); }
  uint8_t responder_resources() const {
    return static_cast<uint8_t>(GetBits<0, 8>(qpn_resources));
  }
  void set_responder_resources(uint8_t v) {
    SetBits<0, 8>(qpn_resources, uint32_t{v});
  }
  uint8_t initiator_depth() const {
    return static_cast<uint8_t>(GetBits<0, 8>(eecn_depth));
  }
  void set_initiator_depth(uint8_t v) {
    SetBits<0, 8>(eecn_depth, uint32_t{v});
  }
  uint8_t remote_response_timeout_code() const {
    return static_cast<uint8_t>(GetBits<3, 5>(remote_eecn_timeout));
  }
  void set_remote_response_timeout_code(uint8_t v) {
    SetBits<3, 5>(remote_eecn_timeout, uint32_t{v});
  }
  uint8_t transport_service() const {
    return static_cast<uint8_t>(GetBits<1, 2>(remote_eecn_timeout));
  }
  void set_transport_service(uint8_t v) {
    SetBits<1, 2>(remote_eecn_timeout, uint32_t{v});
  }
  bool flow_control() const { return GetBits<0, 1>(remote_eecn_timeout) != 0; }
  void set_flow_control(bool v) {
    SetBits<0, 1>(remote_eecn_timeout, uint32_t{v});
  }
  Psn starting_psn() const { return Psn(GetBits<8, 24>(psn_timeout)); }
  void set_starting_psn(Psn v) { SetBits<8, 24>(psn_timeout, v.value()); }
  uint8_t local_response_timeout_code() const {
    return static_cast<uint8_t>(GetBits<3, 5>(psn_timeout));
  }
  void set_local_response_timeout_code(uint8_t v) {
    SetBits<3, 5>(psn_timeout, uint32_t{v});
  }
  uint8_t retry_count() const {
    return static_cast<uint8_t>(GetBits<0, 3>(psn_timeout));
  }
  void set_retry_count(uint8_t v) { SetBits<0, 3>(psn_timeout, uint32_t{v}); }
  uint8_t mtu_code() const { return GetBits<4, 4>(mtu_rnr); }
  void set_mtu_code(uint8_t v) { SetBits<4, 4>(mtu_rnr, v); }
  uint8_t rnr_retry_count() const { return GetBits<0, 3>(mtu_rnr); }
  void set_rnr_retry_count(uint8_t v) { SetBits<0, 3>(mtu_rnr, v); }
  uint8_t max_cm_retries() const { return GetBits<4, 4>(retries_srq); }
  void set_max_cm_retries(uint8_t v) { SetBits<4, 4>(retries_srq, v); }
  bool srq() const { return GetBits<3, 1>(retries_srq) != 0; }
  void set_srq(bool v) { SetBits<3, 1>(retries_srq, v); }
  // With transport service 3: 1 is XRC.
  uint8_t extended_transport() const { return GetBits<0, 3>(retries_srq); }
  void set_extended_transport(uint8_t v) { SetBits<0, 3>(retries_srq, v); }
  bool has_alternate_path() const {
    return alternate.local_lid.value() != 0 || !(alternate.local_gid == Gid{});
  }
};
static_assert(sizeof(CmReq) == kMadBytes && alignof(CmReq) == 1);
static_assert(offsetof(CmReq, service_id) == 24 + 8);
static_assert(offsetof(CmReq, qpn_resources) == 24 + 32);
static_assert(offsetof(CmReq, pkey) == 24 + 48);
static_assert(offsetof(CmReq, primary) == 24 + 52);
static_assert(offsetof(CmReq, alternate) == 24 + 96);
static_assert(offsetof(CmReq, private_data) == 24 + 140);

inline constexpr uint8_t kTransportRc = 0;
inline constexpr uint8_t kTransportUc = 1;
inline constexpr uint8_t kTransportExtended = 3;
inline constexpr uint8_t kExtendedTransportXrc = 1;

//= IBTA 12.6.6: the format of an MRA (message receipt acknowledgement)
struct CmMra {
  static constexpr uint16_t kAttribute = kCmMraAttribute;
  MadHeader mad;
  Be<uint32_t> local_comm_id;
  Be<uint32_t> remote_comm_id;
  uint8_t message = 0;          // message MRAed (2), reserved (6)
  uint8_t service_timeout = 0;  // service timeout (5), reserved (3)
  uint8_t private_data[kMraPrivateBytes] = {};

  uint8_t message_mraed() const { return GetBits<6, 2>(message); }
  void set_message_mraed(uint8_t v) { SetBits<6, 2>(message, v); }
  uint8_t service_timeout_code() const {
    return GetBits<3, 5>(service_timeout);
  }
  void set_service_timeout_code(uint8_t v) {
    SetBits<3, 5>(service_timeout, v);
  }
};
static_assert(sizeof(CmMra) == kMadBytes && alignof(CmMra) == 1);
static_assert(offsetof(CmMra, private_data) == 24 + 10);

//= IBTA 12.6.7: the format of a REJ (reject)
struct CmRej {
  static constexpr uint16_t kAttribute = kCmRejAttribute;
  MadHeader mad;
  Be<uint32_t> local_comm_id;
  Be<uint32_t> remote_comm_id;
  uint8_t message = 0;     // message rejected (2), reserved (6)
  uint8_t ari_length = 0;  // length of the ARI (7), reserved (1)
  Be<uint16_t> reason;
  uint8_t ari[kRejAriBytes] = {};
  uint8_t private_data[kRejPrivateBytes] = {};

  uint8_t message_rejected() const { return GetBits<6, 2>(message); }
  void set_message_rejected(uint8_t v) { SetBits<6, 2>(message, v); }
  uint8_t ari_bytes() const { return GetBits<1, 7>(ari_length); }
  void set_ari_bytes(uint8_t v) { SetBits<1, 7>(ari_length, v); }
};
static_assert(sizeof(CmRej) == kMadBytes && alignof(CmRej) == 1);
static_assert(offsetof(CmRej, reason) == 24 + 10);
static_assert(offsetof(CmRej, ari) == 24 + 12);
static_assert(offsetof(CmRej, private_data) == 24 + 84);

//= IBTA 12.6.8: the format of a REP (reply to a request)
struct CmRep {
  static constexpr uint16_t kAttribute = kCmRepAttribute;
  MadHeader mad;
  Be<uint32_t> local_comm_id;
  Be<uint32_t> remote_comm_id;
  Be<uint32_t> local_qkey;
  // Each with 8 bits of the ECE vendor id, from the highest to the lowest.
  Be<uint32_t> qpn_vendor;   // QPN (24)
  Be<uint32_t> eecn_vendor;  // EECN (24); XRC: target QPN
  Be<uint32_t> psn_vendor;   // PSN (24)
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t ack_delay_flow = 0;  // target ACK delay (5), failover accepted (2),
                               // end-to-end flow control (1)
  uint8_t rnr_srq = 0;         // RNR retry count (3), SRQ (1), reserved (4)
  Be<uint64_t> local_ca_guid;
  uint8_t private_data[kRepPrivateBytes] = {};

  uint32_t ece_vendor_id() const {
    return GetBits<0, 8>(qpn_vendor) << 16 | GetBits<0, 8>(eecn_vendor) << 8 |
           GetBits<0, 8>(psn_vendor);
  }
  void set_ece_vendor_id(uint32_t v) {
    SetBits<0, 8>(qpn_vendor, v >> 16);
    SetBits<0, 8>(eecn_vendor, v >> 8);
    SetBits<0, 8>(psn_vendor, v);
  }
  Qpn local_qpn() const { return Qpn{GetBits<8, 24>(qpn_vendor)}; }
  void set_local_qpn(Qpn v) { SetBits<8, 24>(qpn_vendor, v.value); }
  uint32_t local_eecn() const { return GetBits<8, 24>(eecn_vendor); }
  void set_local_eecn(uint32_t v) { SetBits<8, 24>(eecn_vendor, v); }
  Psn starting_psn() const { return Psn(GetBits<8, 24>(psn_vendor)); }
  void set_starting_psn(Psn v) { SetBits<8, 24>(psn_vendor, v.value()); }
  uint8_t target_ack_delay_code() const {
    return GetBits<3, 5>(ack_delay_flow);
  }
  void set_target_ack_delay_code(uint8_t v) {
    SetBits<3, 5>(ack_delay_flow, v);
  }
  // 0: accepted (also if nothing was proposed), 1: not supported.
  uint8_t failover() const { return GetBits<1, 2>(ack_delay_flow); }
  void set_failover(uint8_t v) { SetBits<1, 2>(ack_delay_flow, v); }
  bool flow_control() const { return GetBits<0, 1>(ack_delay_flow) != 0; }
  void set_flow_control(bool v) { SetBits<0, 1>(ack_delay_flow, v); }
  uint8_t rnr_retry_count() const { return GetBits<5, 3>(rnr_srq); }
  void set_rnr_retry_count(uint8_t v) { SetBits<5, 3>(rnr_srq, v); }
  bool srq() const { return GetBits<4, 1>(rnr_srq) != 0; }
  void set_srq(bool v) { SetBits<4, 1>(rnr_srq, v); }
};
static_assert(sizeof(CmRep) == kMadBytes && alignof(CmRep) == 1);
static_assert(offsetof(CmRep, responder_resources) == 24 + 24);
static_assert(offsetof(CmRep, local_ca_guid) == 24 + 28);
static_assert(offsetof(CmRep, private_data) == 24 + 36);

//= IBTA 12.6.9: the format of an RTU (ready to use)
struct CmRtu {
  static constexpr uint16_t kAttribute = kCmRtuAttribute;
  MadHeader mad;
  Be<uint32_t> local_comm_id;
  Be<uint32_t> remote_comm_id;
  uint8_t private_data[kRtuPrivateBytes] = {};
};
static_assert(sizeof(CmRtu) == kMadBytes && alignof(CmRtu) == 1);

//= IBTA 12.6.10: the format of a DREQ (request for communication release)
struct CmDreq {
  static constexpr uint16_t kAttribute = kCmDreqAttribute;
  MadHeader mad;
  Be<uint32_t> local_comm_id;
  Be<uint32_t> remote_comm_id;
  Be<uint32_t> qpn_reserved;  // the receiver's QPN (24), reserved (8)
  uint8_t private_data[kDreqPrivateBytes] = {};

  Qpn remote_qpn() const { return Qpn{GetBits<8, 24>(qpn_reserved)}; }
  void set_remote_qpn(Qpn v) { SetBits<8, 24>(qpn_reserved, v.value); }
};
static_assert(sizeof(CmDreq) == kMadBytes && alignof(CmDreq) == 1);

//= IBTA 12.6.11: the format of a DREP (reply to a request for communication
//= release)
struct CmDrep {
  static constexpr uint16_t kAttribute = kCmDrepAttribute;
  MadHeader mad;
  Be<uint32_t> local_comm_id;
  Be<uint32_t> remote_comm_id;
  uint8_t private_data[kDrepPrivateBytes] = {};
};
static_assert(sizeof(CmDrep) == kMadBytes && alignof(CmDrep) == 1);

//= IBTA 12.8.1: the format of a LAP (load alternate path): only the fields that
//= a refusal needs
struct CmLap {
  static constexpr uint16_t kAttribute = kCmLapAttribute;
  MadHeader mad;
  Be<uint32_t> local_comm_id;
  Be<uint32_t> remote_comm_id;
  uint8_t rest[224] = {};
};
static_assert(sizeof(CmLap) == kMadBytes && alignof(CmLap) == 1);

//= IBTA 12.8.2: the format of an APR (alternate path response)
struct CmApr {
  static constexpr uint16_t kAttribute = kCmAprAttribute;
  MadHeader mad;
  Be<uint32_t> local_comm_id;
  Be<uint32_t> remote_comm_id;
  uint8_t info_bytes = 0;
  uint8_t status = 0;
  uint8_t reserved[2] = {};
  uint8_t info[72] = {};
  uint8_t private_data[148] = {};
};
static_assert(sizeof(CmApr) == kMadBytes && alignof(CmApr) == 1);
static_assert(offsetof(CmApr, info) == 24 + 12);

//= IBTA 12.11.1: the format of a SIDR_REQ (service ID resolution request)
struct CmSidrReq {
  static constexpr uint16_t kAttribute = kCmSidrReqAttribute;
  MadHeader mad;
  Be<uint32_t> request_id;
  Be<uint16_t> pkey;
  Be<uint16_t> reserved;
  Be<uint64_t> service_id;
  uint8_t private_data[kSidrReqPrivateBytes] = {};
};
static_assert(sizeof(CmSidrReq) == kMadBytes && alignof(CmSidrReq) == 1);
static_assert(offsetof(CmSidrReq, service_id) == 24 + 8);

//= IBTA 12.11.2: the format of a SIDR_REP (service ID resolution response)
struct CmSidrRep {
  static constexpr uint16_t kAttribute = kCmSidrRepAttribute;
  MadHeader mad;
  Be<uint32_t> request_id;
  uint8_t status = 0;
  uint8_t info_bytes = 0;
  Be<uint16_t> reserved;
  Be<uint32_t> qpn_reserved;  // QPN (24), reserved (8)
  Be<uint64_t> service_id;
  Be<uint32_t> qkey;
  uint8_t info[kSidrRepInfoBytes] = {};
  uint8_t private_data[kSidrRepPrivateBytes] = {};

  Qpn qpn() const { return Qpn{GetBits<8, 24>(qpn_reserved)}; }
  void set_qpn(Qpn v) { SetBits<8, 24>(qpn_reserved, v.value); }
};
static_assert(sizeof(CmSidrRep) == kMadBytes && alignof(CmSidrRep) == 1);
static_assert(offsetof(CmSidrRep, service_id) == 24 + 12);
static_assert(offsetof(CmSidrRep, private_data) == 24 + 96);

}  // namespace urnic::wire
