#pragma once

// Packets for RUD windows that nobody has sent, with a right CRC.

#include <cstdint>
#include <span>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/fuzz/rud_picks.h"
#include "tests/fuzz/rud_watched_end.h"

namespace urnic::testing {

class RudInventor {
 public:
  using Bytes = std::vector<uint8_t>;
  using End = RudWatchedEnd;

  // `ends`: that third parties may be, too. All outlive it.
  RudInventor(Input* in, std::span<End, 2> ends)
      : in_(*in), pick_(in), ends_(ends) {}

  // From one end to the other; or to the group, of which that may be a member.
  Bytes Packet(End& from, End& to, bool for_group) {
    headers_.clear();
    payload_.clear();
    for_group_ = for_group;
    wire::RudBase base;
    const uint8_t what = in_.Byte();
    auto type = static_cast<wire::RudType>(1 + (what & 7));
    base.notify = what >> 3 & 7;
    base.flags = (what & 0xe0) == 0xe0 ? in_.Byte() : 0;
    base.path = in_.Below(4);
    const uint8_t wrong = in_.Byte();
    const uint32_t key = for_group ? End::kGroupKey : End::kKey;
    base.job = wire::Be<uint32_t>(wrong == 1 ? End::kJob + 1 : End::kJob);
    base.key = wire::Be<uint32_t>(wrong == 2 ? key + 1 : key);
    base.window = wire::Be<uint32_t>(for_group ? 0 : to.window());
    base.source_window = wire::Be<uint32_t>(from.window());
    if (for_group && wrong >= 0xe0) {
      type = wire::RudType::kData;
      base.flags = wire::kRudList;
      AddTransfer(to);
      AddList(from, to);
    } else {
      AddBody(from, to, type);
    }
    base.SetType(type);
    base.payload_bytes =
        wire::Be<uint16_t>(static_cast<uint16_t>(payload_.size()));
    Bytes packet;
    Append(packet, base);
    packet.insert(packet.end(), headers_.begin(), headers_.end());
    packet.insert(packet.end(), payload_.begin(), payload_.end());
    packet.resize(packet.size() + wire::kRudCrcBytes);
    Repair(from, to, packet);
    return packet;
  }

  // Gives a packet its right CRC.
  static void Repair(const End& from, const End& to, Bytes& packet) {
    const size_t body = packet.size() - wire::kRudCrcBytes;
    const auto& base = *reinterpret_cast<const wire::RudBase*>(packet.data());
    const bool for_group = base.target_window() == 0;
    wire::Crc32c crc = wire::RudCrcOfAddresses(
        from.address(), for_group ? End::GroupAddress() : to.address());
    crc.Add(std::span(packet).first(body)).Store(&packet[body]);
  }

 private:
  template <typename Header>
  static void Append(Bytes& to, const Header& header) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
    to.insert(to.end(), bytes, bytes + sizeof(header));
  }
  template <typename Header>
  void Add(const Header& header) {
    Append(headers_, header);
  }
  void AddPayload(uint32_t bytes) { payload_.assign(bytes, 0xab); }
  // What follows the base header.
  void AddBody(End& from, End& to, wire::RudType type) {
    if (type == wire::RudType::kFifo) {
      Add(wire::RudTag());
      return AddPayload(pick_.Bytes());
    }
    if (type == wire::RudType::kCompletion) {
      for (uint32_t n = 1 + in_.Below(3); n != 0; --n) {
        wire::RudCompletion done;
        done.source = ToWire(pick_.Context(to));
        done.tid = wire::Be<uint64_t>(pick_.Tid());
        Append(payload_, done);
      }
      return;
    }
    AddTransfer(to);
    if (type == wire::RudType::kData || type == wire::RudType::kThirdData) {
      AddData(from, to);
    } else if (type == wire::RudType::kNotice) {
      wire::RudNotice notice;
      notice.sender = ToWire(pick_.Context(from));
      notice.reason = in_.Below(2);
      notice.arrived = wire::Be<uint64_t>(in_.Byte());
      Add(notice);
    } else if (type == wire::RudType::kStateRequest) {
      Add(ToWire(pick_.Context(from)));
    } else {
      AddRead(from, to);
    }
    if (rud::HasThird(type)) AddThird(to);
  }
  void AddTransfer(End& to) {
    wire::RudTransfer transfer;
    transfer.context =
        ToWire(for_group_ ? pick_.GroupContext() : pick_.Context(to));
    transfer.tid = wire::Be<uint64_t>(pick_.Tid());
    Add(transfer);
  }
  void AddData(End& from, End& to) {
    wire::RudData data;
    const uint32_t total = pick_.Bytes();
    const uint16_t stride = pick_.Stride();
    const uint8_t number = in_.Byte() % 8;
    const uint32_t offset = uint32_t{number} * stride;
    const uint64_t place =
        for_group_ ? pick_.GroupOffset(to) : pick_.Pvo(to).value;
    data.pvo = wire::Be<uint64_t>(place + offset);
    data.total = wire::Be<uint32_t>(total);
    data.offset = wire::Be<uint32_t>(offset);
    data.stride = wire::Be<uint16_t>(stride);
    data.number = number;
    data.source = ToWire(pick_.Context(from));
    Add(data);
    if (offset <= total) AddPayload(wire::RudPayloadOf(total, stride, number));
  }
  // All writes are in one packet.
  void AddList(End& from, End& to) {
    payload_ = pick_.List(to, in_.Byte());
    const auto bytes = static_cast<uint16_t>(payload_.size());
    wire::RudData data;
    data.total = wire::Be<uint32_t>(bytes);
    data.stride = wire::Be<uint16_t>(bytes);
    data.source = ToWire(pick_.Context(from));
    Add(data);
  }
  void AddRead(End& from, End& to) {
    wire::RudRead read;
    read.source_pvo = wire::Be<uint64_t>(pick_.Pvo(to).value);
    read.target_pvo = wire::Be<uint64_t>(pick_.Pvo(from).value);
    const uint32_t total = pick_.Bytes();
    const uint16_t stride = pick_.Stride();
    read.total = wire::Be<uint32_t>(total);
    read.stride = wire::Be<uint16_t>(stride);
    read.target = ToWire(pick_.Context(from));
    read.packets = wire::Be<uint64_t>(pick_.Packets(total, stride));
    Add(read);
  }
  void AddThird(End& to) {
    wire::RudThird third;
    const uint8_t which = in_.Below(4);
    third.address = which == 3 ? wire::Gid() : to.address();
    third.window = wire::Be<uint32_t>(1 + (which & 1));
    third.context = ToWire(pick_.Context(ends_[which & 1]));
    Add(third);
  }

  Input& in_;
  RudPicks pick_;
  const std::span<End, 2> ends_;
  bool for_group_ = false;
  Bytes headers_;  // after the base header
  Bytes payload_;
};

}  // namespace urnic::testing
