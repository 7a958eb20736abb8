#include "transport/cm/messages.h"

#include <algorithm>
#include <cerrno>

namespace urnic::cm {
namespace {

using wire::Be;

constexpr uint8_t kCodeMax = 31;
constexpr uint32_t kBits24 = 0x00ffffff;
constexpr uint8_t kMtuCodeMin = 1;
constexpr uint8_t kMtuCodeMax = 5;

wire::CmPath ProposedPath(const Config& config, const ConnectParams& params) {
  const net::PathQuery& p = params.path;
  wire::CmPath path;
  path.local_gid = p.local;
  path.remote_gid = p.remote;
  // A path through routers has no LIDs; a path in the subnet has LID 0.
  const bool subnet_local = p.hop_limit <= 1;
  const uint16_t lid = subnet_local ? 0 : wire::kPermissiveLid;
  path.local_lid = path.remote_lid = Be<uint16_t>(lid);
  path.set_subnet_local(subnet_local);
  path.set_flow_label(p.flow_label);
  path.set_packet_rate(params.packet_rate);
  path.traffic_class = p.traffic_class;
  path.hop_limit = p.hop_limit;
  path.set_service_level(p.service_level);
  path.set_ack_timeout_code(
      AckTimeoutCode(config.ack_delay_code, params.packet_life_time_code));
  return path;
}

}  // namespace

Duration CodeTime(uint8_t code) {
  return Duration::Nanoseconds(int64_t{4096} << std::min(code, kCodeMax));
}

uint8_t AckTimeoutCode(uint8_t ack_delay_code, uint8_t packet_life_time_code) {
  // Doubling the life time adds 1 to its code. The sum of two times is one code
  // above the larger one if their codes are equal or adjacent.
  const int life = packet_life_time_code + 1;
  const int delay = ack_delay_code;
  const int code = life >= delay ? life + (delay >= life - 1 ? 1 : 0)
                                 : delay + (life >= delay - 1 ? 1 : 0);
  return static_cast<uint8_t>(std::min<int>(code, kCodeMax));
}

wire::CmReq MakeReq(const Config& config, const Connection& c,
                    const ConnectParams& params) {
  auto req = Begin<wire::CmReq>(c.transaction_id);
  req.mad.attribute_modifier = Be<uint32_t>(params.ece.options);
  req.local_comm_id = Be<uint32_t>(c.local_comm_id);
  req.set_ece_vendor_id(params.ece.vendor_id);
  req.service_id = Be<uint64_t>(params.service_id);
  req.local_ca_guid = Be<uint64_t>(config.ca_guid);
  req.set_local_qpn(params.qpn);
  req.set_initiator_depth(params.initiator_depth);
  req.set_remote_response_timeout_code(params.remote_response_timeout_code);
  req.set_local_response_timeout_code(params.local_response_timeout_code);
  req.set_transport_service(static_cast<uint8_t>(params.service));
  req.set_flow_control(params.flow_control);
  req.set_starting_psn(params.starting_psn);
  req.pkey = Be<uint16_t>(params.path.pkey);
  req.set_mtu_code(params.mtu_code);
  req.set_max_cm_retries(params.max_cm_retries);
  if (params.service == Service::kXrc) {
    //= IBTA A14: the REQ of an XRC initiator leaves the fields of a responder
    //= and of a receive queue zero
    req.set_extended_transport(wire::kExtendedTransportXrc);
  } else {
    req.set_responder_resources(params.responder_resources);
    req.set_retry_count(params.retry_count);
    req.set_rnr_retry_count(params.rnr_retry_count);
    req.set_srq(params.srq);
  }
  req.primary = ProposedPath(config, params);
  PutBytes(req.private_data, params.private_data);
  return req;
}

wire::CmRep MakeRep(const Config& config, const Connection& c,
                    const AcceptParams& params) {
  auto rep =
      Begin<wire::CmRep>(c.transaction_id, c.local_comm_id, c.remote_comm_id);
  rep.mad.attribute_modifier = Be<uint32_t>(params.ece.options);
  rep.set_ece_vendor_id(params.ece.vendor_id);
  rep.set_starting_psn(params.starting_psn);
  rep.responder_resources = params.responder_resources;
  rep.set_target_ack_delay_code(config.ack_delay_code);
  rep.set_failover(c.alternate_path ? wire::kFailoverUnsupported : 0);
  rep.set_rnr_retry_count(params.rnr_retry_count);
  rep.local_ca_guid = Be<uint64_t>(config.ca_guid);
  if (c.service == Service::kXrc) {
    //= IBTA A14: the REP of an XRC target has its queue pair number in the
    //= field for the EECN
    rep.set_srq(true);
    rep.set_local_eecn(params.qpn.value);
  } else {
    rep.initiator_depth = params.initiator_depth;
    rep.set_flow_control(params.flow_control);
    rep.set_srq(params.srq);
    rep.set_local_qpn(params.qpn);
  }
  PutBytes(rep.private_data, params.private_data);
  return rep;
}

wire::CmRej MakeRej(const Connection& c, const RejectParams& params) {
  auto rej =
      Begin<wire::CmRej>(c.transaction_id, c.local_comm_id, c.remote_comm_id);
  switch (c.state) {
    case State::kReqReceived:  // the peer does not know our id
      rej.local_comm_id = Be<uint32_t>(0);
      [[fallthrough]];
    case State::kMraReqSent:
      rej.set_message_rejected(wire::kCmMessageReq);
      break;
    case State::kRepReceived:
    case State::kMraRepSent:
      rej.set_message_rejected(wire::kCmMessageRep);
      break;
    default:
      rej.set_message_rejected(wire::kCmMessageOther);
  }
  rej.reason = Be<uint16_t>(params.reason);
  rej.set_ari_bytes(static_cast<uint8_t>(params.ari.size()));
  PutBytes(rej.ari, params.ari);
  PutBytes(rej.private_data, params.private_data);
  return rej;
}

wire::CmRej MakeRej(const wire::MadHeader& to, uint32_t its_local_comm_id,
                    uint32_t its_remote_comm_id, uint8_t message,
                    uint16_t reason) {
  auto rej = Begin<wire::CmRej>(to.transaction_id.value(), its_remote_comm_id,
                                its_local_comm_id);
  rej.set_message_rejected(message);
  rej.reason = Be<uint16_t>(reason);
  return rej;
}

wire::CmSidrRep MakeSidrRep(uint64_t transaction_id, uint32_t request_id,
                            uint64_t service_id,
                            const SidrReplyParams& params) {
  auto rep = Begin<wire::CmSidrRep>(transaction_id);
  rep.request_id = Be<uint32_t>(request_id);
  rep.status = params.status;
  rep.info_bytes = static_cast<uint8_t>(params.info.size());
  rep.set_qpn(params.qpn);
  rep.service_id = Be<uint64_t>(service_id);
  rep.qkey = Be<uint32_t>(params.qkey);
  PutBytes(rep.info, params.info);
  PutBytes(rep.private_data, params.private_data);
  return rep;
}

net::PathQuery PathOf(const wire::CmReq& req) {
  net::PathQuery path;
  path.local = req.primary.remote_gid;
  path.remote = req.primary.local_gid;
  path.pkey = req.pkey.value();
  path.flow_label = req.primary.flow_label();
  path.traffic_class = req.primary.traffic_class;
  path.hop_limit = req.primary.hop_limit;
  path.service_level = req.primary.service_level();
  return path;
}

int Check(const ConnectParams& p) {
  const bool service_known = p.service == Service::kRc ||
                             p.service == Service::kUc ||
                             p.service == Service::kXrc;
  const bool path_fits = p.path.flow_label < 1u << 20 &&
                         p.path.service_level < 16 && p.packet_rate < 64 &&
                         p.mtu_code >= kMtuCodeMin && p.mtu_code <= kMtuCodeMax;
  const bool codes_fit = p.packet_life_time_code <= kCodeMax &&
                         p.remote_response_timeout_code <= kCodeMax &&
                         p.local_response_timeout_code <= kCodeMax;
  const bool counts_fit =
      p.retry_count < 8 && p.rnr_retry_count < 8 && p.max_cm_retries < 16;
  const bool fits = service_known && path_fits && codes_fit && counts_fit &&
                    p.qpn.value <= kBits24 && p.ece.vendor_id <= kBits24 &&
                    p.private_data.size() <= wire::kReqPrivateBytes;
  return fits ? 0 : EINVAL;
}

int Check(const AcceptParams& p) {
  const bool fits = p.qpn.value <= kBits24 && p.ece.vendor_id <= kBits24 &&
                    p.rnr_retry_count < 8 &&
                    p.private_data.size() <= wire::kRepPrivateBytes;
  return fits ? 0 : EINVAL;
}

int Check(const RejectParams& p) {
  const bool fits = p.ari.size() <= wire::kRejAriBytes &&
                    p.private_data.size() <= wire::kRejPrivateBytes;
  return fits ? 0 : EINVAL;
}

int Check(const SidrRequestParams& p) {
  const bool fits = p.response_timeout_code <= kCodeMax &&
                    p.packet_life_time_code <= kCodeMax &&
                    p.max_cm_retries < 16 &&
                    p.private_data.size() <= wire::kSidrReqPrivateBytes;
  return fits ? 0 : EINVAL;
}

int Check(const SidrReplyParams& p) {
  const bool fits = p.qpn.value <= kBits24 &&
                    p.info.size() <= wire::kSidrRepInfoBytes &&
                    p.private_data.size() <= wire::kSidrRepPrivateBytes;
  return fits ? 0 : EINVAL;
}

}  // namespace urnic::cm
