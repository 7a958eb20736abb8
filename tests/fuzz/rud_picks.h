#pragma once

// What the fuzzer of RUD windows takes from its input: contexts, memory and
// sizes that are mostly right, so that packets and commands get far.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/fuzz/rud_watched_end.h"

namespace urnic::testing {

class RudPicks {
 public:
  using End = RudWatchedEnd;

  // The input outlives it.
  explicit RudPicks(Input* in) : in_(*in) {}

  rud::ContextId Context(End& end) {
    const uint8_t which = in_.Byte();
    if ((which & 0xe0) == 0xe0 && !end.former().empty())
      return end.former()[which % end.former().size()];
    if (which == 0xdf || end.owned().empty()) return {in_.Byte(), in_.Word()};
    return end.owned()[which % end.owned().size()];
  }
  uint64_t Tid() {
    const uint8_t tid = in_.Byte();
    if (tid == 0xff) return ~uint64_t{0};
    return uint64_t{tid} >> 3 << 8 | (tid & 7);
  }
  rud::Pvo Pvo(End& end) {
    const uint8_t which = in_.Byte();
    if (which == 0xff) return end.stale();
    if (which == 0xfe) return {uint64_t{in_.Word()} << 32};
    if (end.registrations().empty()) return {};
    const End::Registration& one =
        end.registrations()[(which >> 4) % end.registrations().size()];
    // Near the end of it, or anywhere.
    if ((which & 15) >= 12)
      return {one.pvo.value + (one.end - one.begin) - (which & 3) * 8u};
    return {one.pvo.value + (which & 15u) * 900};
  }
  uint32_t Bytes() {
    static constexpr uint32_t kBytes[] = {0,  1,  8,   9,    20,   32,
                                          33, 64, 500, 1024, 1025, 4096};
    return kBytes[in_.Below(std::size(kBytes))];
  }
  uint16_t Stride() {
    static constexpr uint16_t kStrides[] = {8,    16,   64, 1000,
                                            1024, 1025, 0,  65535};
    return kStrides[in_.Below(std::size(kStrides))];
  }
  // Mostly all that the transfer has.
  uint64_t Packets(uint32_t bytes, uint16_t stride) {
    const uint8_t mask = in_.Byte();
    const uint32_t packets = stride == 0 ? 1 : wire::RudPackets(bytes, stride);
    const uint64_t all = wire::RudAllPackets(std::clamp(packets, 1u, 64u));
    if (mask == 0xff) return ~uint64_t{0};
    return (mask & 1) == 0 ? all : all & mask;
  }
  // Of writes to the end, mostly well-formed.
  std::vector<uint8_t> List(End& end, uint8_t how) {
    std::vector<uint8_t> list;
    for (uint32_t n = how == 0xff ? 70 : 1 + (how & 7); n != 0; --n) {
      const uint8_t bytes = 1 + in_.Below(4);
      wire::RudListEntry entry;
      entry.pvo = wire::Be<uint64_t>(Pvo(end).value);
      entry.bytes = wire::Be<uint16_t>(bytes);
      const auto* raw = reinterpret_cast<const uint8_t*>(&entry);
      list.insert(list.end(), raw, raw + sizeof(entry));
      list.insert(list.end(), bytes, n);
    }
    if ((how & 0xf0) == 0xe0) list.pop_back();
    return list;
  }

  // --- In a group ------------------------------------------------------------

  // The key of such a context has no meaning.
  rud::ContextId GroupContext() {
    const uint8_t which = in_.Byte();
    return {which == 0xff ? in_.Word() : which & 3u, which >> 4 & 3u};
  }
  // In the memory of a member, at its end or before it, or where its PVO
  // overflows.
  uint64_t GroupOffset(End& end) {
    const uint8_t which = in_.Byte();
    if (which < 0xf0) return which * uint64_t{40};
    const rud::Membership* const as = end.membership();
    const uint64_t back = (which & 3) * uint64_t{8};
    if (as == nullptr || which < 0xf4) return 0 - back;
    return (which < 0xfc ? as->bytes : 0 - as->pvo.value) - back;
  }
  uint64_t GroupBytes() {
    const uint8_t which = in_.Byte();
    return which == 0xff ? ~uint64_t{0} : which * uint64_t{48};
  }
  rud::Membership Membership(End& end) {
    const uint8_t how = in_.Byte();
    rud::Membership as;
    as.key = End::kGroupKey + (how >> 6 == 3 ? 1 : 0);
    for (uint32_t n = how & 7; n != 0; --n) as.contexts.push_back(Context(end));
    as.pvo = Pvo(end);
    as.bytes = GroupBytes();
    return as;
  }

 private:
  Input& in_;
};

}  // namespace urnic::testing
