#pragma once

// Two RUD windows, each with registered memory and a context, for tests with
// one packet at a time.

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "tests/support/rud_end.h"
#include "transport/mem/mr_table.h"

namespace urnic::testing {

using Bytes = std::vector<uint8_t>;

inline constexpr uint32_t kRudJob = 7;
inline constexpr uint32_t kRudKey = 0x5eed;
inline constexpr uint16_t kRudStride = 64;
inline constexpr uint32_t kRudAll =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;

inline RudEndConfig RudPairConfig(uint32_t number) {
  RudEndConfig config;
  config.window = {.number = number, .job = kRudJob, .key = kRudKey};
  config.address = wire::Gid::FromIpv4(0x0a000000 + number);
  config.seed = number;
  return config;
}

constexpr uint64_t Tid(uint64_t transfer, uint8_t attempt = 0) {
  return transfer << 8 | attempt;
}

class RudPair : public ::testing::Test {
 protected:
  RudPair()
      : a_(RudPairConfig(1)),
        b_(RudPairConfig(2)),
        a_bytes_(4096),
        b_bytes_(4096, 0xee),
        a_pvo_(Register(a_, a_bytes_, kRudAll)),
        b_pvo_(Register(b_, b_bytes_, kRudAll)),
        a_context_(a_.Acquire()),
        b_context_(b_.Acquire()) {
    std::iota(a_bytes_.begin(), a_bytes_.end(), uint8_t{1});
  }

  static rud::Pvo Register(RudEnd& end, Bytes& bytes, uint32_t access) {
    return end.tces()
        .Register(kRudJob, reinterpret_cast<uint64_t>(bytes.data()),
                  bytes.size(), access, rud::PageSize::k4K)
        .value();
  }

  urnic_rud_send Command(uint8_t opcode, uint64_t tid, uint32_t bytes) const {
    urnic_rud_send command = {};
    command.opcode = opcode;
    command.notify = URNIC_RUD_NOTIFY_SOURCE;
    command.peer = 1;
    command.window = 2;
    command.context = b_context_.value();
    command.local_context = a_context_.value();
    command.tid = tid;
    command.local_pvo = a_pvo_.value;
    command.remote_pvo = b_pvo_.value;
    command.bytes = bytes;
    command.stride = kRudStride;
    command.packets = wire::RudAllPackets(wire::RudPackets(bytes, kRudStride));
    return command;
  }
  std::vector<Bytes> SendFrom(RudEnd& from, RudEnd& to) {
    std::vector<Bytes> out;
    for (RudEnd::Sent& sent : from.Transmit(to.config().address))
      out.push_back(std::move(sent.bytes));
    return out;
  }
  std::vector<Bytes> Send(const urnic_rud_send& command) {
    a_.Post(command);
    return SendFrom(a_, b_);
  }
  RxVerdict Give(const Bytes& packet) {
    return b_.Receive(packet, a_.config().address);
  }
  // A packet to B, changed by `change(packet)`, with the right CRC.
  template <typename Change>
  Bytes Forged(Bytes packet, Change&& change) const {
    change(packet.data());
    const size_t body = packet.size() - wire::kRudCrcBytes;
    wire::Crc32c crc =
        wire::RudCrcOfAddresses(a_.config().address, b_.config().address);
    crc.Add(std::span(packet).first(body)).Store(&packet[body]);
    return packet;
  }
  // Delivers B's answers to A. Returns the number of packets.
  size_t Answer() {
    const std::vector<Bytes> answers = SendFrom(b_, a_);
    for (const Bytes& packet : answers)
      EXPECT_EQ(a_.Receive(packet, b_.config().address), RxVerdict::kAccept);
    return answers.size();
  }
  bool Arrived(uint32_t bytes) const {
    return std::equal(a_bytes_.begin(), a_bytes_.begin() + bytes,
                      b_bytes_.begin()) &&
           std::all_of(b_bytes_.begin() + bytes, b_bytes_.end(),
                       [](uint8_t byte) { return byte == 0xee; });
  }

  RudEnd a_;
  RudEnd b_;
  Bytes a_bytes_;
  Bytes b_bytes_;
  const rud::Pvo a_pvo_;
  const rud::Pvo b_pvo_;
  const rud::ContextId a_context_;
  const rud::ContextId b_context_;
};

}  // namespace urnic::testing
