// Golden bytes of Linux' connection manager: every MAD of the captures is
// parsed into fields, and built again from them.

#include "transport/wire/cm_messages.h"

#include <gtest/gtest.h>

#include "tests/support/cm_capture.h"
#include "transport/wire/ip_cm.h"

namespace urnic::wire {
namespace {

using ::urnic::testing::CapturedMad;
using ::urnic::testing::ReadCmCapture;

template <size_t kBytes>
void CopyBytes(const uint8_t (&from)[kBytes], uint8_t (&to)[kBytes]) {
  std::memcpy(to, from, kBytes);
}

MadHeader Again(const MadHeader& in) {
  MadHeader out;
  out.base_version = in.base_version;
  out.management_class = in.management_class;
  out.class_version = in.class_version;
  out.method = in.method;
  out.transaction_id = Be<uint64_t>(in.transaction_id.value());
  out.attribute_id = Be<uint16_t>(in.attribute_id.value());
  out.attribute_modifier = Be<uint32_t>(in.attribute_modifier.value());
  return out;
}

template <typename Message>
Message WithIds(const Message& in) {
  Message out;
  out.mad = Again(in.mad);
  out.local_comm_id = Be<uint32_t>(in.local_comm_id.value());
  out.remote_comm_id = Be<uint32_t>(in.remote_comm_id.value());
  return out;
}

CmPath Again(const CmPath& in) {
  CmPath out;
  out.local_lid = Be<uint16_t>(in.local_lid.value());
  out.remote_lid = Be<uint16_t>(in.remote_lid.value());
  out.local_gid = in.local_gid;
  out.remote_gid = in.remote_gid;
  out.set_flow_label(in.flow_label());
  out.set_packet_rate(in.packet_rate());
  out.traffic_class = in.traffic_class;
  out.hop_limit = in.hop_limit;
  out.set_service_level(in.service_level());
  out.set_subnet_local(in.subnet_local());
  out.set_ack_timeout_code(in.ack_timeout_code());
  return out;
}

CmReq Again(const CmReq& in) {
  CmReq out;
  out.mad = Again(in.mad);
  out.local_comm_id = Be<uint32_t>(in.local_comm_id.value());
  out.service_id = Be<uint64_t>(in.service_id.value());
  out.local_ca_guid = Be<uint64_t>(in.local_ca_guid.value());
  out.local_qkey = Be<uint32_t>(in.local_qkey.value());
  out.set_ece_vendor_id(in.ece_vendor_id());
  out.set_local_qpn(in.local_qpn());
  out.set_responder_resources(in.responder_resources());
  out.set_initiator_depth(in.initiator_depth());
  out.set_remote_response_timeout_code(in.remote_response_timeout_code());
  out.set_transport_service(in.transport_service());
  out.set_flow_control(in.flow_control());
  out.set_starting_psn(in.starting_psn());
  out.set_local_response_timeout_code(in.local_response_timeout_code());
  out.set_retry_count(in.retry_count());
  out.pkey = Be<uint16_t>(in.pkey.value());
  out.set_mtu_code(in.mtu_code());
  out.set_rnr_retry_count(in.rnr_retry_count());
  out.set_max_cm_retries(in.max_cm_retries());
  out.set_srq(in.srq());
  out.set_extended_transport(in.extended_transport());
  out.primary = Again(in.primary);
  out.alternate = Again(in.alternate);
  CopyBytes(in.private_data, out.private_data);
  return out;
}

CmRep Again(const CmRep& in) {
  CmRep out = WithIds(in);
  out.local_qkey = Be<uint32_t>(in.local_qkey.value());
  out.set_ece_vendor_id(in.ece_vendor_id());
  out.set_local_qpn(in.local_qpn());
  out.set_local_eecn(in.local_eecn());
  out.set_starting_psn(in.starting_psn());
  out.responder_resources = in.responder_resources;
  out.initiator_depth = in.initiator_depth;
  out.set_target_ack_delay_code(in.target_ack_delay_code());
  out.set_failover(in.failover());
  out.set_flow_control(in.flow_control());
  out.set_rnr_retry_count(in.rnr_retry_count());
  out.set_srq(in.srq());
  out.local_ca_guid = Be<uint64_t>(in.local_ca_guid.value());
  CopyBytes(in.private_data, out.private_data);
  return out;
}

CmRej Again(const CmRej& in) {
  CmRej out = WithIds(in);
  out.set_message_rejected(in.message_rejected());
  out.set_ari_bytes(in.ari_bytes());
  out.reason = Be<uint16_t>(in.reason.value());
  CopyBytes(in.ari, out.ari);
  CopyBytes(in.private_data, out.private_data);
  return out;
}

CmRtu Again(const CmRtu& in) {
  CmRtu out = WithIds(in);
  CopyBytes(in.private_data, out.private_data);
  return out;
}

CmDreq Again(const CmDreq& in) {
  CmDreq out = WithIds(in);
  out.set_remote_qpn(in.remote_qpn());
  CopyBytes(in.private_data, out.private_data);
  return out;
}

CmDrep Again(const CmDrep& in) {
  CmDrep out = WithIds(in);
  CopyBytes(in.private_data, out.private_data);
  return out;
}

CmSidrReq Again(const CmSidrReq& in) {
  CmSidrReq out;
  out.mad = Again(in.mad);
  out.request_id = Be<uint32_t>(in.request_id.value());
  out.pkey = Be<uint16_t>(in.pkey.value());
  out.service_id = Be<uint64_t>(in.service_id.value());
  CopyBytes(in.private_data, out.private_data);
  return out;
}

CmSidrRep Again(const CmSidrRep& in) {
  CmSidrRep out;
  out.mad = Again(in.mad);
  out.request_id = Be<uint32_t>(in.request_id.value());
  out.status = in.status;
  out.info_bytes = in.info_bytes;
  out.set_qpn(in.qpn());
  out.service_id = Be<uint64_t>(in.service_id.value());
  out.qkey = Be<uint32_t>(in.qkey.value());
  CopyBytes(in.info, out.info);
  CopyBytes(in.private_data, out.private_data);
  return out;
}

template <typename Message>
void ExpectSame(const CapturedMad& mad) {
  const Message again = Again(mad.As<Message>());
  EXPECT_EQ(std::memcmp(&again, mad.bytes.data(), sizeof(again)), 0)
      << "attribute " << mad.attribute();
  EXPECT_EQ(mad.attribute(), Message::kAttribute);
}

void ExpectSameAgain(const CapturedMad& mad) {
  switch (mad.attribute()) {
    case kCmReqAttribute:
      return ExpectSame<CmReq>(mad);
    case kCmRejAttribute:
      return ExpectSame<CmRej>(mad);
    case kCmRepAttribute:
      return ExpectSame<CmRep>(mad);
    case kCmRtuAttribute:
      return ExpectSame<CmRtu>(mad);
    case kCmDreqAttribute:
      return ExpectSame<CmDreq>(mad);
    case kCmDrepAttribute:
      return ExpectSame<CmDrep>(mad);
    case kCmSidrReqAttribute:
      return ExpectSame<CmSidrReq>(mad);
    case kCmSidrRepAttribute:
      return ExpectSame<CmSidrRep>(mad);
    default:
      ADD_FAILURE() << "attribute " << mad.attribute();
  }
}

struct Capture {
  const char* name;
  size_t mads;  // counted by tshark
};
constexpr Capture kCaptures[] = {
    {"rxe_cm_rdma_client", 5}, {"rxe_cm_reject_nolistener", 2},
    {"rxe_cm_rping", 5},       {"rxe_cm_rping_ipv6", 5},
    {"rxe_cm_ucmatose", 5},    {"rxe_cm_udaddy_sidr", 2},
};

class CmCaptureTest : public ::testing::TestWithParam<Capture> {};

TEST_P(CmCaptureTest, EveryMessageParsesAndReemits) {
  const auto mads = ReadCmCapture(GetParam().name);
  EXPECT_EQ(mads.size(), GetParam().mads);
  for (const CapturedMad& mad : mads) ExpectSameAgain(mad);
}

INSTANTIATE_TEST_SUITE_P(Linux, CmCaptureTest, ::testing::ValuesIn(kCaptures),
                         [](const auto& info) { return info.param.name; });

//= IBTA 12.6.5
TEST(CmMessagesTest, ALinuxRequestHasTheFieldsThatTsharkReads) {
  const auto mads = ReadCmCapture("rxe_cm_rping");
  ASSERT_FALSE(mads.empty());
  const auto& req = mads[0].As<CmReq>();
  EXPECT_EQ(req.local_comm_id.value(), 0xd72cfdb6u);
  EXPECT_EQ(req.service_id.value(), 0x0000000001061c06u);
  EXPECT_EQ(req.local_ca_guid.value(), 0x505417fffe4dd1b1u);
  EXPECT_EQ(req.local_qpn().value, 0x37u);
  EXPECT_EQ(req.responder_resources(), 1);
  EXPECT_EQ(req.initiator_depth(), 1);
  EXPECT_EQ(req.remote_response_timeout_code(), 20);
  EXPECT_EQ(req.transport_service(), kTransportRc);
  EXPECT_FALSE(req.flow_control());
  EXPECT_EQ(req.starting_psn(), Psn(0xfeb230));
  EXPECT_EQ(req.local_response_timeout_code(), 20);
  EXPECT_EQ(req.retry_count(), 7);
  EXPECT_EQ(req.pkey.value(), 0xffff);
  EXPECT_EQ(req.mtu_code(), 3);
  EXPECT_EQ(req.rnr_retry_count(), 7);
  EXPECT_EQ(req.max_cm_retries(), 15);
  EXPECT_FALSE(req.srq());
  EXPECT_EQ(req.primary.local_lid.value(), kPermissiveLid);
  EXPECT_EQ(req.primary.local_gid, Gid::FromIpv4(0x0a070001));
  EXPECT_EQ(req.primary.remote_gid, Gid::FromIpv4(0x0a070002));
  // tshark 4.0 shows the flow label one byte early; these are the bytes.
  EXPECT_EQ(req.primary.flow_label(), 0xa3e55u);
  EXPECT_EQ(req.primary.packet_rate(), 0);
  EXPECT_EQ(req.primary.hop_limit, 64);
  EXPECT_FALSE(req.primary.subnet_local());
  EXPECT_EQ(req.primary.ack_timeout_code(), 17);
  EXPECT_FALSE(req.has_alternate_path());
}

// By hand: Linux sends an MRA only when a program is slow, and no capture has
// one.
//= IBTA 12.6.6
TEST(CmMessagesTest, AnMraSaysWhichMessageItAnswersAndHowLongToWait) {
  CmMra mra;
  mra.local_comm_id = Be<uint32_t>(0x01020304);
  mra.remote_comm_id = Be<uint32_t>(0x05060708);
  mra.set_message_mraed(kCmMessageRep);
  mra.set_service_timeout_code(0x15);
  const auto* m = reinterpret_cast<const uint8_t*>(&mra) + sizeof(MadHeader);
  const uint8_t expected[] = {1, 2, 3, 4, 5, 6, 7, 8, 1 << 6, 0x15 << 3};
  EXPECT_EQ(std::memcmp(m, expected, sizeof(expected)), 0);
}

// Where Linux 6.1 (include/rdma/ibta_vol1_c12.h) has the vendor's 24 bits.
TEST(CmMessagesTest, TheEceVendorLiesBetweenOtherFields) {
  CmReq req;
  req.set_ece_vendor_id(0x123456);
  const auto* q = reinterpret_cast<const uint8_t*>(&req) + sizeof(MadHeader);
  EXPECT_EQ(q[4], 0);
  EXPECT_EQ(q[5], 0x12);
  EXPECT_EQ(q[6], 0x34);
  EXPECT_EQ(q[7], 0x56);
  CmRep rep;
  rep.set_local_qpn(Qpn{0xabcdef});
  rep.set_ece_vendor_id(0x123456);
  rep.set_starting_psn(Psn(0xfedcba));
  const auto* p = reinterpret_cast<const uint8_t*>(&rep) + sizeof(MadHeader);
  EXPECT_EQ(p[15], 0x12);
  EXPECT_EQ(p[19], 0x34);
  EXPECT_EQ(p[23], 0x56);
  EXPECT_EQ(rep.ece_vendor_id(), 0x123456u);
  EXPECT_EQ(rep.local_qpn().value, 0xabcdefu);
  EXPECT_EQ(rep.starting_psn(), Psn(0xfedcba));
}

//= IBTA A11.3
TEST(IpCmTest, TheHeaderInARequestNamesItsAddresses) {
  for (const char* name : {"rxe_cm_rping", "rxe_cm_rping_ipv6"}) {
    const auto mads = ReadCmCapture(name);
    ASSERT_FALSE(mads.empty());
    IpCmHeader header;
    std::memcpy(&header, mads[0].As<CmReq>().private_data, sizeof(header));
    EXPECT_EQ(header.major_version(), 0);
    EXPECT_EQ(header.source_gid(), mads[0].source);
    EXPECT_EQ(header.destination_gid(), mads[0].destination);
    const IpCmHeader again = IpCmHeader::Make(
        mads[0].source, mads[0].destination, header.source_port.value());
    EXPECT_EQ(std::memcmp(&again, &header, sizeof(header)), 0);
  }
}

}  // namespace
}  // namespace urnic::wire
