#pragma once

// What a peer by hand (hand_peer.h) says to an iWARP device, as the next bytes
// of a fuzzer's input tell it: segments with right and wrong numbers, the
// set-up of MPA, FPDUs, garbage.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/sim/hand_peer.h"
#include "transport/iwarp/rdmap/raw_ulpdu.h"

namespace urnic::sim {

class PeerScript {
 public:
  using Input = testing::Input;

  // `in` and `peer` outlive the script. What the host's keys open begins at
  // `address`.
  PeerScript(Input& in, HandPeer& peer, uint64_t address)
      : in_(in), peer_(peer), address_(address) {}

  // `key`: of the host's memory, or 0.
  void Speak(uint8_t op, uint32_t key) {
    HandPeer::Stream& stream = peer_.stream(in_.Byte());
    wire::TcpFields fields = HandPeer::Fields(stream);
    switch (op) {
      case 0:
      case 1:
        return Syn(stream, op == 1);
      case 2:
        return peer_.SendBytes(stream, {});
      case 3:
        return SendSetup(stream);
      case 4:
      case 5:
      case 6:
      case 7:
        return SendFpdu(stream, key);
      case 8:  // numbers near the right ones
        fields.seq = fields.seq + Near();
        fields.ack = fields.ack + Near();
        fields.flags = in_.Byte();
        fields.window = static_cast<uint16_t>(in_.Byte() << 6);
        return peer_.Send(fields, Garbage());
      case 9:  // any numbers
        fields.seq = SeqNum(in_.Word());
        fields.ack = SeqNum(in_.Word());
        fields.flags = in_.Byte();
        if (in_.Below(2) != 0) {
          fields.options.timestamps = {in_.Word(), in_.Word()};
        }
        fields.options.sack_count = 1;
        fields.options.sack[0] = {stream.expected + Near(),
                                  stream.expected + Near()};
        return peer_.Send(fields, Garbage());
      case 10:
        return peer_.SendBytes(stream, Garbage());
      case 11:
        return peer_.SendBytes(stream, {}, /*fin=*/true);
      case 12:
        fields.flags = wire::kTcpRst;
        fields.seq = fields.seq + (in_.Below(2) != 0 ? Near() : 0);
        return peer_.Send(fields);
      case 13: {
        const uint8_t at = in_.Byte();
        return peer_.SendAgain(at, in_.Below(2) != 0 ? in_.Byte() : uint8_t{0});
      }
      case 14:
        return peer_.HoldNext();
      default:
        return SendTooBig(stream);
    }
  }

 private:
  uint32_t Near() {
    const auto delta = static_cast<uint32_t>(static_cast<int8_t>(in_.Byte()));
    return in_.Below(4) == 0 ? delta * 256 : delta;
  }
  std::span<const uint8_t> Garbage() {
    const size_t bytes = in_.Byte();
    garbage_.assign(in_.Below(2) != 0 ? bytes * 5 : bytes, 0);
    for (size_t i = 0; i < std::min<size_t>(garbage_.size(), 8); ++i) {
      garbage_[i] = in_.Byte();
    }
    return garbage_;
  }

  // `answer`: of the host's SYN.
  void Syn(HandPeer::Stream& stream, bool answer) {
    const uint8_t options = in_.Byte();
    if (!answer) stream.host_port = HandPeer::kHostPort;
    wire::TcpFields fields = HandPeer::Fields(stream);
    fields.flags = wire::kTcpSyn | (answer ? wire::kTcpAck : uint8_t{0});
    stream.timestamps = (options & 1) != 0;
    if ((options & 2) != 0)
      fields.options.mss = static_cast<uint16_t>(in_.Word());
    if ((options & 4) != 0) fields.options.window_shift = in_.Byte() % 16;
    fields.options.sack_permitted = (options & 8) != 0;
    fields.options.urnic = (options & 16) != 0;
    fields.options.timestamps.reset();
    if (stream.timestamps) {
      fields.options.timestamps = {stream.next.value(), stream.host_stamp};
    }
    peer_.Send(fields);
    stream.next = stream.next + 1;
    stream.msn[0] = stream.msn[1] = 1;
  }

  void SendSetup(HandPeer::Stream& stream) {
    const uint8_t how = in_.Byte();
    mpa::SetupFrame frame;
    frame.kind = stream.host_port == HandPeer::kHostPort
                     ? mpa::SetupKind::kRequest
                     : mpa::SetupKind::kReply;
    if ((how & 1) != 0) frame.revision = 1;
    frame.markers = (how & 2) != 0;
    frame.crc = (how & 4) == 0;
    frame.reject = (how & 8) != 0;
    frame.promise = (how & 16) != 0;
    if (frame.revision == 2 && (how & 32) == 0) {
      const uint32_t depths = in_.Word();
      frame.enhanced = {wire::Be<uint16_t>(static_cast<uint16_t>(depths >> 16)),
                        wire::Be<uint16_t>(static_cast<uint16_t>(depths))};
    }
    garbage_.assign(in_.Byte(), 0x5a);
    frame.private_data = garbage_;
    peer_.SendSetup(stream, frame);
  }

  // FPDUs that are mostly good.
  void SendFpdu(HandPeer::Stream& stream, uint32_t key) {
    using rdmap::testing::Raw;
    const uint8_t how = in_.Byte();
    if ((how & 0x80) != 0) key = in_.Word();
    const uint64_t address = address_ + in_.Byte() * 140u;
    const uint32_t bytes = in_.Byte() * 5u;
    const auto opcode = static_cast<wire::RdmapOpcode>(in_.Byte() % 16);
    std::vector<uint8_t> ulpdu;
    switch (how & 7) {
      case 0:
        ulpdu = Raw(rdmap::testing::RawTagged{.last = (how & 8) == 0,
                                              .stag = key,
                                              .offset = address,
                                              .payload = bytes});
        break;
      case 1:
        ulpdu = Raw(rdmap::testing::RawUntagged{
            .last = (how & 8) == 0, .msn = stream.msn[0], .payload = bytes});
        if ((how & 8) == 0) ++stream.msn[0];
        break;
      case 2:
        ulpdu = Raw(rdmap::testing::RawRead{.msn = stream.msn[1]++,
                                            .stag = key,
                                            .address = address,
                                            .bytes = bytes * 8});
        break;
      case 3:
        ulpdu = Raw(rdmap::testing::RawAtomic{
            .msn = stream.msn[1]++, .stag = key, .address = address});
        break;
      case 4:  // perhaps an answer
        ulpdu = Raw(rdmap::testing::RawTagged{
            .opcode = wire::RdmapOpcode::kReadResponse,
            .last = (how & 8) == 0,
            .stag = key,
            .offset = address,
            .payload = bytes});
        break;
      case 5:
        ulpdu = Raw(rdmap::testing::RawUntagged{.opcode = opcode,
                                                .last = (how & 8) == 0,
                                                .queue = in_.Byte() % 5u,
                                                .msn = in_.Byte() % 8u,
                                                .offset = in_.Byte(),
                                                .stag = key,
                                                .payload = bytes});
        break;
      case 6:
        break;  // without a ULPDU
      default: {
        const std::span<const uint8_t> garbage = Garbage();
        ulpdu.assign(garbage.begin(), garbage.end());
      }
    }
    peer_.SendFpdu(stream, ulpdu, (how & 16) == 0);
  }

  void SendTooBig(const HandPeer::Stream& stream) {
    const uint32_t mtu = in_.Byte() * 8u;
    peer_.SendTooBig(stream, stream.expected + Near(), mtu);
  }

  Input& in_;
  HandPeer& peer_;
  const uint64_t address_;
  std::vector<uint8_t> garbage_;
};

}  // namespace urnic::sim
