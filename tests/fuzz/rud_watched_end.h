#pragma once

// A RUD window with its rings and memory, and the rules that hold whatever its
// peers, the members of its group and its program do. A broken rule aborts.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/rud_end.h"
#include "transport/base/check.h"
#include "transport/mem/mr_table.h"
#include "transport/rud/context_pool.h"

namespace urnic::testing {

// One window, and what the rules need to know of its past.
class RudWatchedEnd {
 public:
  using Bytes = std::vector<uint8_t>;

  static constexpr uint32_t kJob = 3;
  static constexpr uint32_t kKey = 0x1234;
  static constexpr uint32_t kContexts = 12;
  // What it calls the group that it writes to, and of which it may be a member.
  static constexpr uint32_t kGroupPeer = 3;
  static constexpr uint32_t kGroupKey = 0x6e0;
  static constexpr uint32_t kReceiveEntries = 4;
  static constexpr size_t kMemoryBytes = 3 * 4096;
  static constexpr size_t kRegistrationMax = 24;
  static constexpr uint32_t kAll =
      mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;

  // One that peers may name.
  struct Registration {
    rud::Pvo pvo;
    uint64_t begin;
    uint64_t end;
    uint32_t access;
    uint32_t job;
  };

  explicit RudWatchedEnd(uint32_t number)
      : memory_(kMemoryBytes / sizeof(Page) + 1), rnic_([number] {
          RudEndConfig config;
          config.window = {.number = number, .job = kJob, .key = kKey};
          // One for all, so that each packet may go to any window.
          config.address = wire::Gid::FromIpv4(0x0a000001);
          config.contexts = kContexts;
          config.receive_entries = kReceiveEntries;
          config.tces = 16;
          config.seed = number;
          return config;
        }()) {
    rnic_.on_place = [this](const Placement& placement,
                            const rud::RxPacket& packet) {
      CheckPlaced(placement, packet);
    };
    rnic_.on_send = [this](const rud::TxPacket& packet) {
      CheckSource(packet);
    };
    rnic_.is_gone = [this](uint64_t) { return faults_ && --faults_ == 0; };
    rnic_.breaks_commands = true;
    rnic_.peers[kGroupPeer] = {GroupAddress(), 0, kGroupKey};
    Register(0, kMemoryBytes, kAll, kJob);
    for (int i = 0; i < 4; ++i) owned_.push_back(rnic_.Acquire());
  }

  RudEnd& rnic() { return rnic_; }
  uint32_t window() const { return rnic_.config().window.number; }
  const wire::Gid& address() const { return rnic_.config().address; }
  static wire::Gid GroupAddress() { return wire::Gid::FromIpv4(0xef010203); }
  std::vector<rud::ContextId>& owned() { return owned_; }
  std::vector<rud::ContextId>& former() { return former_; }
  std::vector<Registration>& registrations() { return registrations_; }
  void FaultAfter(uint32_t uses) { faults_ = uses; }
  // Null: it is not in the group.
  rud::Membership* membership() {
    return rnic_.group.has_value() ? &rnic_.group->as : nullptr;
  }
  void Join(const rud::Membership& as) { rnic_.group = {GroupAddress(), as}; }
  void Leave() { rnic_.group.reset(); }

  void Register(uint64_t offset, uint64_t bytes, uint32_t access,
                uint32_t job) {
    if (registrations_.size() == kRegistrationMax) return;
    const auto begin =
        reinterpret_cast<uint64_t>(memory_.data()) + kMemoryBegin + offset;
    const auto pvo =
        rnic_.tces().Register(job, begin, bytes, access, rud::PageSize::k4K);
    if (pvo)
      registrations_.push_back({*pvo, begin, begin + bytes, access, job});
  }
  void Deregister(size_t i) {
    const Registration gone = registrations_[i];
    URNIC_CHECK(rnic_.tces().Deregister(gone.job, gone.pvo));
    URNIC_CHECK(!rnic_.tces().Deregister(gone.job, gone.pvo));
    rnic_.tces().Reclaim();
    registrations_.erase(registrations_.begin() + static_cast<int64_t>(i));
    stale_ = gone.pvo;
  }
  rud::Pvo stale() const { return stale_; }

  void Acquire() {
    const uint32_t free = rnic_.contexts().free();
    const auto id = rnic_.contexts().Acquire(rnic_.config().window.number);
    URNIC_CHECK(id.has_value() == (free != 0));
    if (id) owned_.push_back(*id);
  }
  void Release(size_t i) {
    rnic_.Release(owned_[i]);
    former_.push_back(owned_[i]);
    owned_.erase(owned_.begin() + static_cast<int64_t>(i));
  }
  void Recover() {
    rnic_.Recover();
    former_.insert(former_.end(), owned_.begin(), owned_.end());
    owned_.clear();
    CheckContexts();
  }

  void Receive(const std::vector<Bytes>& burst, const wire::Gid& from,
               bool marked) {
    const std::vector<RxVerdict> verdicts =
        rnic_.ReceiveBurst(burst, from, 1, marked);
    for (size_t i = 0; i < burst.size(); ++i) {
      CheckVerdict(burst[i], verdicts[i]);
      if (verdicts[i] == RxVerdict::kAccept) CountPushed(burst[i]);
    }
    Watch();
    for (const rud::ContextId id : owned_) {
      const rud::Context& context = rnic_.contexts().At(id.number);
      if (context.state != rud::ContextState::kReceived) continue;
      const Transfer transfer = {id.value(), rud::TransferOf(context.tid)};
      if (complete_.insert(transfer).second)
        URNIC_CHECK(placed_[transfer].bytes == context.total);
    }
  }

  std::vector<RudEnd::Sent> Transmit(const wire::Gid& to, uint32_t most) {
    std::vector<Before> before;
    for (const rud::ContextId id : owned_) {
      const rud::Context& context = rnic_.contexts().At(id.number);
      before.push_back({context.tid, context.state, context.to_group});
    }
    NoteOthers();
    const bool had_work = rnic_.window().HasWork();
    auto sent = rnic_.Transmit(to, most);
    URNIC_CHECK(had_work || sent.empty());
    Watch();
    for (size_t i = 0; i < owned_.size(); ++i) {
      const rud::Context& context = rnic_.contexts().At(owned_[i].number);
      const Transfer transfer = {owned_[i].value(),
                                 rud::TransferOf(context.tid)};
      if (context.tid == before[i].tid && context.state == before[i].state)
        continue;
      if (context.state == rud::ContextState::kAwaiting) ++awaited_[transfer];
      if (context.state != rud::ContextState::kReceived) {
        // Its owner has begun a transfer of the same number.
        complete_.erase(transfer);
        told_.erase(transfer);
        if (context.state != rud::ContextState::kReceiving ||
            context.arrived == 0) {
          placed_.erase(transfer);
        }
      }
      if (context.state != rud::ContextState::kEnded) refused_.erase(transfer);
      // What a member has missed belongs to the write to all.
      if (before[i].to_group && others_.count(transfer) == 0 &&
          rud::TransferOf(before[i].tid) == transfer.second) {
        URNIC_CHECK(context.to_group);
      }
    }
    for (const RudEnd::Sent& packet : sent) CheckSent(packet);
    return sent;
  }
  // A window whose peers and program are silent comes to rest.
  void Drain(const wire::Gid& to) {
    constexpr int kTurns = 1000;
    for (int i = 0; rnic_.window().HasWork(); ++i) {
      URNIC_CHECK(i < kTurns);
      Transmit(to, rud::kBurstMax);
    }
    URNIC_CHECK(Transmit(to, 1).empty());
  }

  // Entries that the window has written since the last time.
  void Watch() {
    const uint32_t producer = rnic_.receive_indices().producer;
    if (producer == seen_) return;
    URNIC_CHECK(producer - rnic_.receive_indices().consumer <= kReceiveEntries);
    for (; seen_ != producer; ++seen_)
      CheckEntry(rnic_.rings().receives[seen_ % kReceiveEntries]);
  }

  void CheckContexts() {
    rud::ContextPool& pool = rnic_.contexts();
    URNIC_CHECK(pool.free() + owned_.size() == pool.size());
    uint32_t busy = 0;
    for (uint32_t i = 0; i < pool.size(); ++i) busy += pool.At(i).window != 0;
    URNIC_CHECK(busy == owned_.size());
    for (const rud::ContextId id : owned_) {
      const rud::Context* context = pool.Find(id, rnic_.config().window.number);
      URNIC_CHECK(context != nullptr && context->key == id.key);
      // Nothing ends such a context but its own transfer.
      URNIC_CHECK(!context->is_own ||
                  context->state == rud::ContextState::kAwaiting ||
                  context->state == rud::ContextState::kReceiving);
      URNIC_CHECK(!context->touched);
      if (!context->to_group || !IsAwaiting(*context)) continue;
      // Only what was sent to a group; and each member would be counted.
      URNIC_CHECK(rnic_.window().failed() ||
                  to_group_.count({id.value(), rud::TransferOf(context->tid)}));
      URNIC_CHECK(context->counter == 0 && !context->count_only);
    }
  }

 private:
  // The memory begins at the same place of a page in each process: what a
  // registration takes of the tables depends on it.
  struct alignas(4096) Page {
    uint8_t bytes[4096];
  };
  static constexpr uint64_t kMemoryBegin = 1000;
  // On one owner's context.
  using Transfer = std::pair<uint64_t, uint64_t>;
  // What has arrived of one.
  struct Placed {
    uint64_t bytes = 0;
    uint64_t packets = 0;  // a bit for each
  };
  // A context before the window did something.
  struct Before {
    uint64_t tid;
    rud::ContextState state;
    bool to_group;
  };

  bool IsAllowed(uint64_t begin, uint64_t bytes, uint32_t access) const {
    return std::any_of(registrations_.begin(), registrations_.end(),
                       [&](const Registration& each) {
                         return each.job == kJob && begin >= each.begin &&
                                begin + bytes <= each.end &&
                                (each.access & access) == access;
                       });
  }

  // Owners' commands that end what was sent to a group, and do not say so.
  void NoteOthers() {
    for (const urnic_rud_send& command : rnic_.rings().sends) {
      if (command.opcode == URNIC_RUD_CANCEL ||
          command.opcode == URNIC_RUD_READ) {
        others_.insert({command.local_context, rud::TransferOf(command.tid)});
      }
    }
  }

  bool IsForGroup(const wire::RudPacket& packet) const {
    return rnic_.group.has_value() && packet.base->target_window() == 0;
  }
  // The transfer of a packet that was taken. Those of a group name one of the
  // member's contexts.
  Transfer TransferOf(const wire::RudPacket& packet) const {
    const wire::RudTransfer& header = packet.transfer();
    rud::ContextId id = rud::IdOf(header.context);
    if (IsForGroup(packet)) {
      const std::vector<rud::ContextId>& own = rnic_.group->as.contexts;
      URNIC_CHECK(id.number < own.size());
      id = own[id.number];
    }
    return {id.value(), rud::TransferOf(header.tid.value())};
  }
  static wire::RudPacket Parse(const Bytes& bytes) {
    wire::RudPacket packet;
    URNIC_CHECK(wire::ParseRud(bytes.data(),
                               static_cast<uint32_t>(bytes.size()),
                               packet) == RxVerdict::kAccept);
    return packet;
  }
  static bool IsData(const wire::RudPacket& packet) {
    return packet.type == wire::RudType::kData ||
           packet.type == wire::RudType::kThirdData;
  }
  // All members get what is written, and packets of FIFO mode.
  static bool MayGoToGroup(const wire::RudPacket& packet) {
    return packet.type == wire::RudType::kFifo ||
           (packet.type == wire::RudType::kData && !packet.is_list());
  }

  // Before anything else, a packet needs the job and the key.
  void CheckVerdict(const Bytes& bytes, RxVerdict verdict) const {
    switch (verdict) {
      case RxVerdict::kTruncated:
      case RxVerdict::kRudBadVersion:
      case RxVerdict::kRudMalformed:
      case RxVerdict::kRudBadCrc:
      case RxVerdict::kRudWindowFailed:
      case RxVerdict::kRudWrongJob:
      case RxVerdict::kRudWrongKey:
        return;
      default:
        break;
    }
    const wire::RudPacket packet = Parse(bytes);
    const bool is_for_group = IsForGroup(packet);
    URNIC_CHECK(packet.base->job.value() == kJob);
    URNIC_CHECK(packet.base->key.value() ==
                (is_for_group ? rnic_.group->as.key : kKey));
    URNIC_CHECK((is_for_group && !MayGoToGroup(packet)) ==
                (verdict == RxVerdict::kRudNotForGroup));
  }

  // Bytes for the FIFO that a context counts are parts of its transfer, too.
  void CountPushed(const Bytes& bytes) {
    const wire::RudPacket packet = Parse(bytes);
    if (!IsData(packet) || (packet.base->flags & wire::kRudToFifo) == 0 ||
        (packet.base->notify == 0 &&
         (packet.base->flags & wire::kRudAnswersRead) == 0)) {
      return;
    }
    CountArrived(TransferOf(packet), packet, packet.payload_bytes);
  }
  // No packet arrives twice, whichever way it comes.
  void CountArrived(const Transfer& transfer, const wire::RudPacket& packet,
                    uint32_t bytes) {
    Placed& placed = placed_[transfer];
    const uint64_t bit = uint64_t{1} << packet.data().number;
    // A list is placed in several pieces.
    URNIC_CHECK(packet.is_list() || (placed.packets & bit) == 0);
    placed.packets |= bit;
    placed.bytes += bytes;
  }

  // Where the packet says; for a group, that is in the member's memory.
  std::optional<uint64_t> PlaceOf(const wire::RudPacket& packet) const {
    uint64_t pvo = packet.data().pvo.value();
    if (IsForGroup(packet)) {
      const rud::Membership& as = rnic_.group->as;
      if (pvo > as.bytes || as.bytes - pvo < packet.payload_bytes) return {};
      pvo += as.pvo.value;
    }
    for (const Registration& each : registrations_) {
      const uint64_t offset = pvo - each.pvo.value;
      if (offset < each.end - each.begin) return each.begin + offset;
    }
    return {};
  }
  // Bytes are placed only where the job may, and never after an end was told
  // what has become of the transfer.
  void CheckPlaced(const Placement& placement, const rud::RxPacket& packet) {
    Watch();
    // The same burst may have begun another transfer.
    const rud::Context& context = rnic_.contexts().At(placement.origin);
    const bool is_read =
        context.was_asked || context.tid != packet.transfer().tid.value();
    URNIC_CHECK(
        IsAllowed(placement.target, placement.bytes, mem::kRemoteWrite) ||
        (is_read && !IsForGroup(packet) &&
         IsAllowed(placement.target, placement.bytes, mem::kLocalWrite)));
    URNIC_CHECK(packet.is_list() || PlaceOf(packet) == placement.target);
    // Only its owner's read has such a context, and no group answers one.
    URNIC_CHECK(!context.is_own || (context.was_asked && !IsForGroup(packet)));
    const Transfer transfer = TransferOf(packet);
    URNIC_CHECK(rud::ContextId::Of(transfer.first).number == placement.origin);
    URNIC_CHECK(complete_.count(transfer) == 0);
    URNIC_CHECK(refused_.count(transfer) == 0);
    const uint32_t headers =
        packet.is_list() ? uint32_t{sizeof(wire::RudListEntry)} : 0;
    CountArrived(transfer, packet, placement.bytes + headers);
  }

  // Payload comes from the rings or from memory that may be read.
  void CheckSource(const rud::TxPacket& packet) {
    if (packet.payload_bytes == 0) return;
    if (!packet.payload_in_ring) {
      const bool is_read = packet.context != rud::TxPacket::kNoContext;
      URNIC_CHECK(IsAllowed(packet.payload, packet.payload_bytes,
                            is_read ? mem::kRemoteRead : mem::kLocalRead));
      return;
    }
    const auto inside = [&](std::span<const std::byte> ring) {
      const auto begin = reinterpret_cast<uint64_t>(ring.data());
      return packet.payload >= begin &&
             packet.payload + packet.payload_bytes <= begin + ring.size();
    };
    URNIC_CHECK(inside(std::as_bytes(std::span(rnic_.rings().sends))) ||
                inside(std::as_bytes(std::span(rnic_.rings().send_slots))) ||
                // A command that has waited.
                inside(std::as_bytes(std::span(&rnic_.window(), 1))));
  }

  // Packets are well-formed, and fit into a frame. Members are asked nothing.
  void CheckSent(const RudEnd::Sent& sent) {
    const wire::RudPacket packet = Parse(sent.bytes);
    URNIC_CHECK(packet.base->job.value() == kJob);
    URNIC_CHECK(packet.base->key.value() ==
                (sent.peer == kGroupPeer ? kGroupKey : kKey));
    URNIC_CHECK(packet.base->sender_window() == rnic_.config().window.number);
    URNIC_CHECK(packet.payload_bytes <= RudEnd::kSlotBytes);
    if (packet.base->target_window() != 0) return;
    URNIC_CHECK(sent.peer != kGroupPeer || MayGoToGroup(packet));
    if (packet.type != wire::RudType::kData ||
        (packet.base->flags & wire::kRudAnswersRead) != 0) {
      return;
    }
    const uint64_t tid = packet.transfer().tid.value();
    const uint64_t id = rud::IdOf(packet.data().source).value();
    to_group_.insert({id, rud::TransferOf(tid)});
    const rud::Context* const context = FindOwned(id);
    URNIC_CHECK(context == nullptr || !IsAwaiting(*context) ||
                context->tid != tid || context->to_group);
  }

  static bool IsAwaiting(const rud::Context& context) {
    return context.state == rud::ContextState::kAwaiting;
  }
  // Null: none of ours has this id.
  const rud::Context* FindOwned(uint64_t id) {
    return rnic_.contexts().Find(rud::ContextId::Of(id),
                                 rnic_.config().window.number);
  }
  // It was sent to a group, whose members answer one after the other: the
  // context waits as long as it has no other transfer.
  bool IsOfGroup(const Transfer& transfer) {
    const rud::Context* const context = FindOwned(transfer.first);
    const bool is_group = context != nullptr && context->to_group &&
                          rud::TransferOf(context->tid) == transfer.second;
    URNIC_CHECK(!is_group || IsAwaiting(*context));
    return is_group;
  }

  // Each end is told once of a transfer, and only if all bytes are there.
  void CheckEntry(const urnic_rud_receive& entry) {
    const Transfer transfer = {entry.context, rud::TransferOf(entry.tid)};
    switch (entry.type) {
      case URNIC_RUD_GOT_TRANSFER:
        URNIC_CHECK(told_.insert(transfer).second);
        URNIC_CHECK(placed_[transfer].bytes == entry.total);
        complete_.insert(transfer);
        return;
      case URNIC_RUD_GOT_COMPLETION:
        URNIC_CHECK(awaited_[transfer] != 0);
        // Of a group, any number of members answer.
        if (!IsOfGroup(transfer)) --awaited_[transfer];
        return;
      case URNIC_RUD_GOT_REFUSAL:
        (void)IsOfGroup(transfer);
        refused_.insert(transfer);
        return;
      default:
        URNIC_CHECK(entry.type != 0);
    }
  }

  std::vector<Page> memory_;
  RudEnd rnic_;
  std::vector<rud::ContextId> owned_;
  std::vector<rud::ContextId> former_;
  std::vector<Registration> registrations_;
  rud::Pvo stale_;
  uint32_t faults_ = 0;
  uint32_t seen_ = 0;
  std::map<Transfer, Placed> placed_;
  std::set<Transfer> complete_;
  std::set<Transfer> told_;
  std::set<Transfer> refused_;
  std::map<Transfer, uint32_t> awaited_;
  std::set<Transfer> to_group_;  // of ours
  std::set<Transfer> others_;    // NoteOthers()
};

}  // namespace urnic::testing
