#pragma once

// Builds the messages of the connection manager from the state of a connection.
// Each function overwrites all 256 bytes of `out`.

#include <cstring>
#include <span>

#include "transport/cm/connection.h"

namespace urnic::cm {

//= IBTA 12.7: a time is sent as a code of 5 bits: 4.096 us * 2^code
Duration CodeTime(uint8_t code);

// The local ACK timeout of a QP whose peer takes `ack_delay_code` to
// acknowledge, over a path of `packet_life_time_code`: 4.096 us * 2^result ~
// 2^ack_delay + 2 * 2^life_time, rounded as in Linux, which does not double the
// time for a small remainder.
uint8_t AckTimeoutCode(uint8_t ack_delay_code, uint8_t packet_life_time_code);

// A message of this type with its MAD header and nothing else.
template <typename Message>
Message Begin(uint64_t transaction_id) {
  Message m;
  m.mad.base_version = wire::kMadBaseVersion;
  m.mad.management_class = wire::kMadClassCm;
  m.mad.class_version = wire::kCmClassVersion;
  m.mad.method = wire::kMadMethodSend;
  m.mad.transaction_id = wire::Be<uint64_t>(transaction_id);
  m.mad.attribute_id = wire::Be<uint16_t>(Message::kAttribute);
  return m;
}
// The same, with the ids that all messages have except REQ and SIDR.
template <typename Message>
Message Begin(uint64_t transaction_id, uint32_t local, uint32_t remote) {
  Message m = Begin<Message>(transaction_id);
  m.local_comm_id = wire::Be<uint32_t>(local);
  m.remote_comm_id = wire::Be<uint32_t>(remote);
  return m;
}

template <typename Message>
std::span<const uint8_t, wire::kMadBytes> BytesOf(const Message& m) {
  static_assert(sizeof(m) == wire::kMadBytes);
  return std::span<const uint8_t, wire::kMadBytes>(
      reinterpret_cast<const uint8_t*>(&m), wire::kMadBytes);
}

// Keeps a message for repetitions.
template <typename Message>
void Store(Connection& c, const Message& m) {
  static_assert(sizeof(m) == sizeof(c.sent));
  std::memcpy(c.sent, &m, sizeof(m));
  c.sent_attribute = Message::kAttribute;
}

// REQUIRES of all: `data` fits its field.
template <size_t kBytes>
void PutBytes(uint8_t (&field)[kBytes], std::span<const uint8_t> data) {
  if (!data.empty()) std::memcpy(field, data.data(), data.size());
}

wire::CmReq MakeReq(const Config& config, const Connection& c,
                    const ConnectParams& params);
wire::CmRep MakeRep(const Config& config, const Connection& c,
                    const AcceptParams& params);
// A REJ with `params`. The state of `c` decides which message it rejects.
wire::CmRej MakeRej(const Connection& c, const RejectParams& params);
// For a message that belongs to no connection: uses the message's ids.
wire::CmRej MakeRej(const wire::MadHeader& to, uint32_t its_local_comm_id,
                    uint32_t its_remote_comm_id, uint8_t message,
                    uint16_t reason);
wire::CmSidrRep MakeSidrRep(uint64_t transaction_id, uint32_t request_id,
                            uint64_t service_id, const SidrReplyParams& params);

// The path that a REQ proposes, seen from its receiver.
net::PathQuery PathOf(const wire::CmReq& req);

// 0, or EINVAL if a value is out of the range of its field.
int Check(const ConnectParams& params);
int Check(const AcceptParams& params);
int Check(const RejectParams& params);
int Check(const SidrRequestParams& params);
int Check(const SidrReplyParams& params);

}  // namespace urnic::cm
