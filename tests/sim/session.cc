// The programs of a session, and the rules for their messages.

#include "tests/sim/session.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/session_end.h"

namespace urnic::sim {

namespace {

// The program's pause between two looks.
constexpr Duration kPause = Duration::Microseconds(20);
constexpr uint64_t kAnyBytes = UINT64_MAX;  // a pattern

}  // namespace

Session::Session(World& world, EngineHost& active, EngineHost& passive,
                 const SessionConfig& config, uint64_t seed)
    : world_(world),
      config_(config),
      random_(seed),
      stride_(config.message_max + kSessionGuardBytes) {
  ends_[0] = std::make_unique<End>(*this, active, 0);
  ends_[1] = std::make_unique<End>(*this, passive, 1);
  for (const auto& end : ends_) std::memset(&end->memory[end->counter()], 0, 8);
}

Session::~Session() {
  for (const auto& end : ends_) {
    end->host.WithToken([&] {
      if (end->life.qp != nullptr) Vanish(*end);
      if (end->life.connection != nullptr) {
        TableOf(*end).Forget(end->life.connection);
      }
    });
  }
}

Session::End& Session::PeerOf(const End& end) { return *ends_[1 - end.index]; }

ConnectionTable& Session::TableOf(const End& end) {
  return end.host.engine().connections();
}

void Session::Later(End& end, std::function<void()> what) {
  end.host.Later([this, life = life_, what = std::move(what)] {
    if (life == life_) what();
  });
}

std::string Session::Where() const {
  std::string text =
      absl::StrCat("session ", config_.number, " in life ", life_, ", trouble ",
                   static_cast<int>(trouble_));
  for (const auto& end : ends_) {
    const End::Life& life = end->life;
    absl::StrAppend(&text, "; ", life.posted, " posted, ", life.requests.size(),
                    " not completed, ", life.receives_done, " received, ",
                    life.heard.size(), " not received, ",
                    life.unconfirmed.size(), " not confirmed",
                    life.connection != nullptr ? ", asked" : "",
                    life.connected ? ", connected" : "",
                    life.ended ? ", ended" : "", life.left ? ", left" : "");
  }
  return text;
}

// --- The programs ------------------------------------------------------------

void Session::Plan(End& end, Duration delay) {
  if (std::exchange(end.planned, true)) return;
  world_.After(delay, [this, &end] {
    end.planned = false;
    Step(end);
  });
}

void Session::Step(End& end) {
  End::Life& life = end.life;
  if (life.qp == nullptr) return;
  Handle(end);
  // A failed request keeps its slot.
  const bool failed = life.send_failed || life.receive_failed;
  if (life.connected && !life.ended && !failed && !struck_ && !parting_) {
    PostReceives(end);
    PostRequests(end);
  }
  if (!parting_ && !struck_ && IsDone(end) && IsDone(PeerOf(end))) {
    parting_ = true;
    End& first = *ends_[random_.Below(2)];
    return Later(first, [this, &first] { Part(first); });
  }
  // While nothing is outstanding, the program looks less often.
  const bool busy = life.connected && !life.ended && !struck_;
  if (!life.sleeps) {
    const uint64_t most_ns = busy ? 40000 : 2000000;
    return Plan(end, Duration::Nanoseconds(
                         1 + static_cast<int64_t>(random_.Below(most_ns))));
  }
  end.host.WithToken([&] {
    for (const auto& cq : life.cqs) {
      cq->queue.ArmFor(CompletionQueue::kArmedAny);
    }
  });
  // No completion would wake a program that has nothing outstanding.
  if (busy && life.requests.empty()) Plan(end, kPause);
}

// Takes all completions from both queues; the order within one is kept.
void Session::Handle(End& end) {
  urnic_cqe cqe;
  for (const auto& cq : end.life.cqs) {
    while (cq->Poll(cqe)) {
      Require(cqe.qp_num == end.life.qp->qpn(),
              "a completion of another queue pair");
      if (cqe.opcode >= URNIC_WC_RECV) {
        OnReceived(end, cqe);
      } else {
        OnSent(end, cqe);
      }
    }
  }
}

void Session::PostReceives(End& end) {
  End::Life& life = end.life;
  // Now and then there are few, and the peer has to wait.
  const uint64_t most = random_.OneIn(8) ? 2 : kSlots;
  bool posted = false;
  for (; life.receives_posted - life.receives_done < most; posted = true) {
    const auto slot = static_cast<uint32_t>(life.receives_posted % kSlots);
    Require(life.rings->PostRecv(
                {.wr_id = life.receives_posted++,
                 .sges = {{end.address(Offset(Area::kReceive, slot)),
                           config_.message_max, end.key}}}),
            "the receive ring is full");
  }
  if (posted && life.qp->wants_recv_doorbell()) {
    end.host.engine().Doorbell(*life.qp);
  }
}

void Session::PostRequests(End& end) {
  End::Life& life = end.life;
  uint32_t posted = 0;
  while (life.requests.size() < config_.depth && !random_.OneIn(4)) {
    const bool more = life.posted < config_.messages;
    // The last writes are confirmed by a message behind them.
    if (!more && (!life.requests.empty() || life.unconfirmed.empty())) break;
    PostOne(end, NextOpcode(end));
    ++posted;
  }
  if (posted != 0) end.host.engine().Doorbell(*life.qp);
}

uint8_t Session::NextOpcode(const End& end) {
  static constexpr uint8_t kOpcodes[] = {
      URNIC_WR_SEND,       URNIC_WR_SEND_WITH_IMM,
      URNIC_WR_SEND,       URNIC_WR_RDMA_WRITE_WITH_IMM,
      URNIC_WR_RDMA_WRITE, URNIC_WR_RDMA_WRITE,
      URNIC_WR_RDMA_READ,  URNIC_WR_ATOMIC_FETCH_AND_ADD};
  Message message;
  message.opcode = kOpcodes[random_.Below(std::size(kOpcodes))];
  // A peer without a receive would end the connection.
  const bool no_receive =
      end.life.receives_asked == PeerOf(end).life.receives_posted;
  const bool no_place = end.life.written_used == (1u << kSlots) - 1;
  if ((message.takes_receive() && no_receive) ||
      (message.writes() && no_place)) {
    return URNIC_WR_RDMA_READ;
  }
  return message.opcode;
}

void Session::PostOne(End& end, uint8_t opcode) {
  const auto take = [](uint32_t& used) {
    const auto slot = static_cast<uint32_t>(std::countr_one(used));
    used |= 1u << slot;
    return slot;
  };
  End& peer = PeerOf(end);
  End::Life& life = end.life;
  Message message;
  message.number = uint64_t{life_} << 32 | life.posted++;
  message.opcode = opcode;
  message.bytes = static_cast<uint32_t>(
      random_.Below(1 + (config_.message_max >> random_.Below(6))));
  message.slot = take(life.local_used);
  const size_t local = Offset(Area::kLocal, message.slot);
  testing::SendWr wr;
  wr.opcode = opcode;
  wr.wr_id = message.number;
  wr.imm_or_key = static_cast<uint32_t>(message.number * 7);
  wr.rkey = peer.key;
  switch (opcode) {
    case URNIC_WR_RDMA_READ:
      Use(end, Area::kLocal, message.slot, end, message);
      Use(peer, Area::kRead, message.slot, end, message);
      Fill(peer, Area::kRead, message.slot);
      wr.remote_addr = peer.address(Offset(Area::kRead, message.slot));
      break;
    case URNIC_WR_ATOMIC_FETCH_AND_ADD:
      wr.remote_addr = peer.address(peer.counter());
      wr.compare_add = 1;
      message.bytes = 8;
      message.place = life.atomics++;
      life.slots[static_cast<size_t>(Area::kLocal)][message.slot] = {kAnyBytes,
                                                                     8};
      break;
    default:
      Use(end, Area::kLocal, message.slot, end, message);
      Fill(end, Area::kLocal, message.slot);
  }
  if (message.writes()) {
    message.written = take(life.written_used);
    wr.remote_addr = peer.address(Offset(Area::kWritten, message.written));
    Use(peer, Area::kWritten, message.written, end, message);
    life.unconfirmed.push_back(message);
  }
  if (message.takes_receive()) {
    const uint64_t place = life.receives_asked++;
    if (!message.writes() && place < peer.life.receives_posted) {
      Use(peer, Area::kReceive, static_cast<uint32_t>(place % kSlots), end,
          message);
    }
    peer.life.heard.push_back(message);
  }
  if (message.bytes != 0) {
    wr.sges = {{end.address(local), message.bytes, end.key}};
  }
  Require(life.rings->PostSend(wr), "the send ring is full");
  life.requests.push_back(message);
  ++stats_.messages;
}

void Session::OnSent(End& end, const urnic_cqe& cqe) {
  End::Life& life = end.life;
  Require(!life.requests.empty(), "a completion too many");
  const Message message = life.requests.front();
  life.requests.pop_front();
  Require(cqe.wr_id == message.number, "requests complete out of order");
  if (cqe.status != URNIC_WC_SUCCESS) {
    life.send_failed = true;
    return CheckError(end, cqe.status);
  }
  Require(!life.send_failed, "a success behind an error");
  life.local_used &= ~(1u << message.slot);
  if (message.opcode == URNIC_WR_ATOMIC_FETCH_AND_ADD) {
    const size_t local = Offset(Area::kLocal, message.slot);
    uint64_t before = 0;
    std::memcpy(&before, &end.memory[local], 8);
    Require(before == message.place, "an atomic has counted wrong");
    ++life.atomics_done;
    life.slots[static_cast<size_t>(Area::kLocal)][message.slot] = {};
    return Clear(end, local, 8);
  }
  CheckAndClear(end, Area::kLocal, message.slot);
  if (message.opcode == URNIC_WR_RDMA_READ) {
    CheckAndClear(PeerOf(end), Area::kRead, message.slot);
    ConfirmWrites(end, message.number);
  }
}

void Session::OnReceived(End& end, const urnic_cqe& cqe) {
  End::Life& life = end.life;
  Require(cqe.wr_id == life.receives_done, "receives complete out of order");
  const auto slot = static_cast<uint32_t>(life.receives_done++ % kSlots);
  if (cqe.status != URNIC_WC_SUCCESS) {
    life.receive_failed = true;
    return CheckError(end, cqe.status);
  }
  Require(!life.receive_failed, "a message behind an error");
  Require(!life.heard.empty(), "a message that nobody has sent");
  const Message message = life.heard.front();
  life.heard.pop_front();
  Require(cqe.byte_len == message.bytes, "a message of another length");
  const bool with_imm = message.opcode != URNIC_WR_SEND;
  Require(((cqe.wc_flags & URNIC_WC_WITH_IMM) != 0) == with_imm &&
              (!with_imm ||
               cqe.imm_or_key == static_cast<uint32_t>(message.number * 7)),
          "a message with another immediate");
  if (!message.writes()) CheckAndClear(end, Area::kReceive, slot);
  ConfirmWrites(PeerOf(end), message.number);
}

void Session::ConfirmWrites(End& end, uint64_t before) {
  auto& writes = end.life.unconfirmed;
  while (!writes.empty() && writes.front().number <= before) {
    CheckAndClear(PeerOf(end), Area::kWritten, writes.front().written);
    end.life.written_used &= ~(1u << writes.front().written);
    writes.pop_front();
  }
}

bool Session::IsDone(const End& end) const {
  const End::Life& life = end.life;
  return life.connected && life.posted >= config_.messages &&
         life.requests.empty() && life.heard.empty() &&
         life.unconfirmed.empty();
}

// What an end without trouble may be told of its requests.
void Session::CheckError(const End& end, uint8_t status) const {
  if (!quiet() || !config_.mild) return;
  // OnEnd() judges why it has ended.
  Require(parting_ || end.life.left, "a request has failed");
  Require(status == URNIC_WC_WR_FLUSH_ERR, "an error at the end");
}

// --- Memory ------------------------------------------------------------------

uint8_t Session::ByteOf(const Slot& slot, size_t at) {
  const uint64_t x = slot.pattern * 0x9e3779b97f4a7c15 + at * 40503;
  return static_cast<uint8_t>(x >> 23);
}

void Session::Use(End& end, Area area, uint32_t slot, const End& from,
                  const Message& message) {
  end.life.slots[static_cast<size_t>(area)][slot] = {
      message.number * 2 + from.index, message.bytes};
}

// The programs write, also where nobody else may write any more.
void Session::Fill(End& end, Area area, uint32_t slot) {
  const Slot& used = end.life.slots[static_cast<size_t>(area)][slot];
  const size_t offset = Offset(area, slot);
  const bool gone = !end.life.last_memory.empty();
  for (size_t i = 0; i < used.bytes; ++i) {
    end.memory[offset + i] = ByteOf(used, i);
    if (gone) end.life.last_memory[offset + i] = ByteOf(used, i);
  }
}

void Session::Clear(End& end, size_t offset, size_t bytes) {
  std::memset(&end.memory[offset], kSessionGuard, bytes);
  if (end.life.last_memory.empty()) return;
  std::memset(&end.life.last_memory[offset], kSessionGuard, bytes);
}

void Session::CheckAndClear(End& end, Area area, uint32_t slot) {
  Slot& used = end.life.slots[static_cast<size_t>(area)][slot];
  const size_t offset = Offset(area, slot);
  for (size_t i = 0; i < stride_; ++i) {
    Require(end.memory[offset + i] ==
                (i < used.bytes ? ByteOf(used, i) : kSessionGuard),
            i < used.bytes ? "other bytes than were sent"
                           : "bytes behind the message");
  }
  Clear(end, offset, used.bytes);
  used = {};
}

// What a connection has left that ended in the middle: each byte is as it was,
// or that of the message that may be there.
void Session::CheckLeftovers(End& end) {
  Require(end.life.last_memory.empty() || end.memory == end.life.last_memory,
          "memory has changed after the end");
  for (size_t area = 0; area < static_cast<size_t>(Area::kAreas); ++area) {
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      const Slot& used = end.life.slots[area][slot];
      const size_t offset = Offset(static_cast<Area>(area), slot);
      for (size_t i = 0; i < stride_; ++i) {
        const uint8_t byte = end.memory[offset + i];
        Require(byte == kSessionGuard ||
                    (i < used.bytes &&
                     (used.pattern == kAnyBytes || byte == ByteOf(used, i))),
                "memory has changed that nobody meant");
      }
    }
  }
  const End::Life& peer = PeerOf(end).life;
  uint64_t counted = 0;
  std::memcpy(&counted, &end.memory[end.counter()], 8);
  Require(counted >= peer.atomics_done && counted <= peer.atomics,
          "the counter is wrong");
  std::fill(end.memory.begin(), end.memory.end() - 8, kSessionGuard);
  std::memset(&end.memory[end.counter()], 0, 8);
}

}  // namespace urnic::sim
