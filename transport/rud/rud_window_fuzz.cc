// Random operations on two windows that face each other, and on their rings,
// contexts and registrations. Both may be members of a group to which both
// write, so that a write has one or two targets. Packets are delivered in
// bursts, lost, duplicated, changed or forged, mostly with the right job, key
// and context. A program writes any bytes to its rings. The rules that must
// hold are in tests/fuzz/rud_watched_end.h.

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/fuzz/rud_inventor.h"
#include "tests/fuzz/rud_picks.h"
#include "tests/fuzz/rud_watched_end.h"

namespace urnic::rud {
namespace {

using testing::Input;
using testing::RudEnd;
using testing::RudInventor;
using testing::RudPicks;
using End = testing::RudWatchedEnd;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kJob = End::kJob;
constexpr size_t kInFlightMax = 128;
constexpr int kOperationMax = 400;
// Values below this are not about groups, so that old inputs keep their
// meaning.
constexpr uint8_t kGroupOperations = 120;

class Fuzzer {
 public:
  explicit Fuzzer(Input input) : in_(input), ends_{End(1), End(2)} {
    for (size_t i = 0; i < 2; ++i) {
      // Each end is also a peer of itself, for third parties and for the group.
      ends_[i].rnic().peers[1] = PeerOf(ends_[1 - i]);
      ends_[i].rnic().peers[2] = PeerOf(ends_[i]);
    }
  }

  void Run() {
    for (int n = 0; n < kOperationMax && !in_.empty(); ++n) {
      const uint8_t what = in_.Byte();
      Operate(what & 1, what >> 1);
      for (End& end : ends_) {
        end.Watch();
        end.CheckContexts();
      }
    }
    for (size_t i = 0; i < 2; ++i) ends_[i].Drain(ends_[1 - i].address());
  }

 private:
  static RudEnd::Peer PeerOf(const End& end) {
    return {end.address(), end.window()};
  }

  void Operate(size_t i, uint8_t what) {
    End& end = ends_[i];
    if (what >= kGroupOperations)
      return OperateGroup(i, what - kGroupOperations);
    switch (what % 20) {
      case 0:
      case 1:
        return Transmit(i);
      case 2:
      case 3:
      case 4:
        return Deliver(i, what >= 60);
      case 5:
      case 6:
        return Invent(i, false);
      case 7:
        if (!wire_[i].empty())
          wire_[i].erase(wire_[i].begin() + in_.Byte() % wire_[i].size());
        return;
      case 8:
        return Alter(i);
      case 9:
      case 10:
      case 11:
        return Post(i, false);
      case 12:
        return Scribble(end);
      case 16:
      case 17:
        return PostAgain(i);
      case 18:
      case 19:
        return Settle();
      case 13:
        (void)end.rnic().Poll();
        return;
      default:
        return Control(end);
    }
  }

  void OperateGroup(size_t i, uint8_t what) {
    switch (what) {
      case 0:
        return ends_[i].Join(pick_.Membership(ends_[i]));
      case 1:
        return ChangeMembership(ends_[i]);
      case 2:
      case 3:
      case 4:
        return Post(i, true);
      case 5:
      case 6:
        return Invent(i, true);
      default:
        return PostToMember(i);
    }
  }

  // The ends to which the network takes a packet of this end.
  std::vector<size_t> TargetsOf(size_t i, const RudEnd::Sent& sent) const {
    if (sent.peer == End::kGroupPeer) return {1 - i, i};
    return {sent.peer == 2 ? i : 1 - i};
  }
  void Transmit(size_t i) {
    const uint32_t most = 1 + in_.Below(kBurstMax);
    for (const auto& sent : ends_[i].Transmit(ends_[1 - i].address(), most)) {
      for (const size_t to : TargetsOf(i, sent)) Carry(to, sent.bytes);
    }
  }
  void Carry(size_t to, Bytes packet) {
    if (wire_[to].size() < kInFlightMax) wire_[to].push_back(std::move(packet));
  }

  // `keep`: a duplicate may follow.
  void Deliver(size_t i, bool keep) {
    std::vector<Bytes>& wire = wire_[i];
    const uint8_t how = in_.Byte();
    if ((how & 0x40) != 0) std::reverse(wire.begin(), wire.end());
    const size_t count = std::min<size_t>(wire.size(), 1 + how % kBurstMax);
    const auto end = wire.begin() + static_cast<int64_t>(count);
    const std::vector<Bytes> burst(wire.begin(), end);
    if (!keep) wire.erase(wire.begin(), end);
    ends_[i].Receive(burst, ends_[1 - i].address(), (how & 0x80) != 0);
  }

  void Alter(size_t i) {
    if (wire_[i].empty()) return;
    Bytes& packet = wire_[i][in_.Byte() % wire_[i].size()];
    packet[in_.Byte() % std::min<size_t>(packet.size(), 104)] = in_.Byte();
    if (in_.Below(8) != 0) RudInventor::Repair(ends_[1 - i], ends_[i], packet);
  }
  void Invent(size_t i, bool for_group) {
    Carry(i, inventor_.Packet(ends_[1 - i], ends_[i], for_group));
  }

  void Post(size_t i, bool to_group) {
    End& end = ends_[i];
    End& other = ends_[1 - i];
    if (!end.rnic().CanPost()) return;
    urnic_rud_send c = {};
    const uint8_t what = in_.Byte();
    c.opcode = 1 + (what & 3);
    c.flags = (what >> 2 & 3) == 3 ? 3 : what >> 2 & 1;
    c.notify = c.opcode == URNIC_RUD_WRITE || c.opcode == URNIC_RUD_READ
                   ? what >> 4 & 3
                   : 0;
    if ((what & 0xc0) == 0xc0) c.flags = in_.Byte();
    if ((what & 0x0f) == 0x0f) BeThirdRead(c, end, what >> 4 & 7);
    if ((what & 0x0f) == 0x0e) BeOnCounter(c);
    if ((what & 0x0f) == 0x0d) {
      c.opcode = URNIC_RUD_CANCEL;
      c.flags = c.notify = 0;
    }
    if ((what & 0xc0) == 0x80) AddCondition(c);
    lists_[i].clear();
    c.path = in_.Below(4);
    c.peer = to_group ? End::kGroupPeer : 0;
    c.window = to_group ? 0 : other.window();
    c.context =
        (to_group ? pick_.GroupContext() : pick_.Context(other)).value();
    c.local_context = pick_.Context(end).value();
    c.tid = pick_.Tid();
    c.local_pvo = pick_.Pvo(end).value;
    c.remote_pvo = to_group ? pick_.GroupOffset(other) : pick_.Pvo(other).value;
    c.bytes = pick_.Bytes();
    c.stride = pick_.Stride();
    c.packets = pick_.Packets(c.bytes, c.stride);
    if ((what & 0x0f) == 0x0c) BeList(c, lists_[i], other);
    last_[i] = c;
    Submit(i, c);
  }
  // A command that is not for a group is refused, and nothing is sent.
  void Submit(size_t i, const urnic_rud_send& command) {
    End& end = ends_[i];
    const bool is_alone = !end.rnic().window().HasWork();
    const uint32_t index = end.rnic().Post(command, lists_[i]);
    // If the program has overwritten its rings, it may have posted nothing.
    if (command.window != 0 || IsForGroup(command) || !is_alone ||
        end.rnic().window().failed() ||
        end.rnic().window().send_fifo().Waiting() != 1) {
      return;
    }
    URNIC_CHECK(end.Transmit(ends_[1 - i].address(), kBurstMax).empty());
    URNIC_CHECK(end.rnic().StatusOf(index) == URNIC_RUD_BAD_REQUEST);
  }
  // A group gets no requests, and its completions are not counted.
  static bool IsForGroup(const urnic_rud_send& command) {
    switch (command.opcode) {
      case URNIC_RUD_READ:
      case URNIC_RUD_THIRD_READ:
      case URNIC_RUD_ASK_STATE:
        return false;
      case URNIC_RUD_WRITE:
        // A list may have to wait before it is checked.
        return command.counter == 0 && ((command.flags & URNIC_RUD_LIST) == 0 ||
                                        command.condition != 0);
      default:
        return true;
    }
  }
  void BeList(urnic_rud_send& c, Bytes& list, End& other) {
    const uint8_t how = in_.Byte();
    list = pick_.List(other, how);
    c.opcode = URNIC_RUD_WRITE;
    c.flags = URNIC_RUD_SLOT_DATA | URNIC_RUD_LIST;
    c.notify = how >> 3 & 3;
    c.remote_pvo = (how & 0xf0) == 0xd0 ? 1 : 0;
    c.bytes = static_cast<uint32_t>(list.size());
    c.stride = static_cast<uint16_t>(c.bytes);
    c.packets = 1;
  }
  // Tells the other end to send to one of the two.
  void BeThirdRead(urnic_rud_send& c, End& end, uint8_t notify) {
    const uint8_t to = in_.Below(4);
    c.opcode = URNIC_RUD_THIRD_READ;
    c.flags = 0;
    c.notify = notify;
    c.target_peer = to == 3 ? 7 : 1 + (to & 1);
    End& target = c.target_peer == 2 ? end : Other(end);
    c.target_window = target.window();
    c.target_context = pick_.Context(target).value();
  }
  void BeOnCounter(urnic_rud_send& c) {
    const uint8_t how = in_.Byte();
    c.opcode = URNIC_RUD_SET_COUNTER + (how & 3);
    c.flags = (how & 0xc0) == 0xc0 ? URNIC_RUD_TO_FIFO : 0;
    c.notify = 0;
    c.counter = how >> 2 & 3;
    c.value = how >> 4 & 3;
  }
  void AddCondition(urnic_rud_send& c) {
    const uint8_t how = in_.Byte();
    c.condition = how == 0xff ? URNIC_RUD_COUNTERS : how & 3;
    c.value = how >> 2 & 7;
    c.counter = how >> 5 & 3;
    if ((how & 0x80) != 0) c.flags |= URNIC_RUD_COUNT_ONLY;
  }
  End& Other(const End& end) { return ends_[&end == &ends_[0] ? 1 : 0]; }
  // Another attempt, like that of an upper layer after a time-out: the same
  // command, or a state request.
  void PostAgain(size_t i) {
    if (!ends_[i].rnic().CanPost()) return;
    const uint8_t how = in_.Byte();
    last_[i].tid += how & 3;
    last_[i].path = how >> 2 & 3;
    urnic_rud_send c = last_[i];
    if (how >= 0xc0) {
      c.opcode = URNIC_RUD_ASK_STATE;
      c.flags = c.notify = 0;
    }
    Submit(i, c);
  }
  // Sends one member what it may have missed of the last write to the group, or
  // a state request.
  void PostToMember(size_t i) {
    urnic_rud_send c = last_[i];
    const uint8_t how = in_.Byte();
    const size_t to = how & 1;
    const rud::Membership* const as = ends_[to].membership();
    if (!ends_[i].rnic().CanPost() || as == nullptr || c.window != 0) return;
    const uint32_t number = ContextId::Of(c.context).number;
    if (c.opcode != URNIC_RUD_WRITE || number >= as->contexts.size()) return;
    c.tid = last_[i].tid += how >> 1 & 3;
    c.peer = to == i ? 2 : 1;
    c.window = ends_[to].window();
    c.context = as->contexts[number].value();
    c.remote_pvo += as->pvo.value;
    c.counter = how >> 3 & 1;
    if ((how & 0x10) != 0) c.packets = pick_.Packets(c.bytes, c.stride);
    if (how >= 0xc0) {
      c.opcode = URNIC_RUD_ASK_STATE;
      c.flags = c.notify = c.counter = 0;
    }
    Submit(i, c);
  }
  // The network and the engines are fast: delivers everything.
  void Settle() {
    for (size_t i = 0; i < 2; ++i) {
      for (auto& sent : ends_[i].Transmit(ends_[1 - i].address(), kBurstMax)) {
        for (const size_t to : TargetsOf(i, sent))
          ends_[to].Receive({sent.bytes}, ends_[i].address(), false);
      }
    }
  }

  // What a hostile program does to its own rings.
  void Scribble(End& end) {
    const uint8_t how = in_.Byte();
    const auto jump = static_cast<int8_t>(in_.Byte());
    switch (how % 5) {
      case 0:
        end.rnic().send_indices().producer += static_cast<uint32_t>(jump);
        return;
      case 1:
        end.rnic().receive_indices().consumer += static_cast<uint32_t>(jump);
        return;
      case 2:
        end.rnic().send_indices().consumer += static_cast<uint32_t>(jump);
        return;
      case 3: {
        auto bytes =
            std::as_writable_bytes(std::span(end.rnic().rings().receives));
        bytes[in_.Byte() % bytes.size()] = std::byte(jump);
        return;
      }
      default: {
        auto bytes =
            std::as_writable_bytes(std::span(end.rnic().rings().sends));
        bytes[in_.Word() % bytes.size()] = std::byte(jump);
      }
    }
  }

  // Makes the end a member with all its contexts, or changes one thing of its
  // membership.
  void ChangeMembership(End& end) {
    const uint8_t what = in_.Byte();
    rud::Membership* const as = end.membership();
    if (as == nullptr) {
      return end.Join({End::kGroupKey, end.owned(),
                       end.registrations().empty()
                           ? Pvo()
                           : end.registrations().front().pvo,
                       End::kMemoryBytes});
    }
    switch (what % 8) {
      case 0:
        as->key ^= 1;
        return;
      case 1:
        as->pvo = pick_.Pvo(end);
        return;
      case 2:
        as->bytes = pick_.GroupBytes();
        return;
      case 3:
        if (!as->contexts.empty()) as->contexts.pop_back();
        return;
      case 4:
      case 5:
        as->contexts.push_back(pick_.Context(end));
        return;
      case 6:
        if (!as->contexts.empty()) as->contexts[0] = pick_.Context(end);
        return;
      default:
        return end.Leave();
    }
  }

  void Control(End& end) {
    const uint8_t what = in_.Byte();
    const uint8_t which = in_.Byte();
    switch (what % 8) {
      case 0:
      case 1:
        return end.Acquire();
      case 2:
        if (!end.owned().empty()) end.Release(which % end.owned().size());
        return;
      case 3:
        if (what == 3) end.Recover();
        return;
      case 4:
      case 5: {
        const uint64_t offset = uint64_t{which} * 40;
        return end.Register(offset, 1 + in_.Below(200) * 10,
                            what >> 4 & End::kAll,
                            (what & 8) != 0 && what > 240 ? kJob + 1 : kJob);
      }
      case 6:
        if (!end.registrations().empty())
          end.Deregister(which % end.registrations().size());
        return;
      default:
        return end.FaultAfter(1 + which % 4);
    }
  }

  Input in_;
  End ends_[2];
  RudPicks pick_{&in_};
  RudInventor inventor_{&in_, ends_};
  std::vector<Bytes> wire_[2];   // to each end
  urnic_rud_send last_[2] = {};  // the last command of each
  Bytes lists_[2];               // and its slot
};

}  // namespace
}  // namespace urnic::rud

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  urnic::rud::Fuzzer(urnic::testing::Input(data, size)).Run();
  return 0;
}
