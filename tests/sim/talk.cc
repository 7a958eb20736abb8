#include "tests/sim/talk.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "tests/sim/talk_end.h"

namespace urnic::sim {

Talk::Talk(World& world, EngineHost& active, EngineHost& passive,
           const TalkConfig& config, uint64_t seed)
    : world_(world),
      config_(config),
      random_(seed),
      stride_(config.message_max + kTalkGuardBytes) {
  ends_[0] = std::make_unique<End>(*this, active, 0);
  ends_[1] = std::make_unique<End>(*this, passive, 1);
  for (const auto& end : ends_) {
    end->key = end->host.WithToken([&] {
      return end->host.network().mrs().Register(
          EngineHost::kPd, reinterpret_cast<uint64_t>(end->memory.data()),
          kTalkIova, end->memory.size(), kTalkRights);
    });
    std::memset(&end->memory[end->counter()], 0, 8);
  }
}

Talk::~Talk() {
  for (const auto& end : ends_) {
    if (end->qp == nullptr) continue;
    end->host.WithToken([&] { end->host.engine().qps().Destroy(end->qp); });
  }
}

Talk::End& Talk::PeerOf(const End& end) { return *ends_[1 - end.index]; }

std::string Talk::Where() const {
  std::string text = absl::StrCat("talk ", config_.number, " in life ", life_);
  for (const auto& end : ends_) {
    absl::StrAppend(&text, "; ", end->posted, " posted, ", end->completed,
                    " completed, ", end->receives_done, " received",
                    end->established ? ", established" : "",
                    end->failed ? ", failed" : "", end->left ? ", left" : "");
  }
  return text;
}

// --- The programs ------------------------------------------------------------

void Talk::Plan(End& end, Duration delay) {
  if (end.planned) return;
  end.planned = true;
  world_.After(delay, [this, &end] {
    end.planned = false;
    Step(end);
  });
}

void Talk::Step(End& end) {
  if (end.qp == nullptr) return;
  Handle(end);
  if (end.established && !end.failed) {
    PostReceives(end);
    PostRequests(end);
  }
  if (!parting_ && (end.failed || (IsDone(end) && IsDone(PeerOf(end))))) {
    parting_ = true;
    End& first = end.failed ? end : *ends_[random_.Below(2)];
    return first.host.Later([this, &first] { Part(first); });
  }
  if (!end.sleeps) {
    return Plan(end, Duration::Nanoseconds(
                         1 + static_cast<int64_t>(random_.Below(40000))));
  }
  end.host.WithToken([&] {
    for (const auto& cq : end.cqs) cq->queue.ArmFor(CompletionQueue::kArmedAny);
  });
  // No completion would wake a program that has nothing outstanding.
  if (end.posted < config_.messages && end.requests.empty())
    Plan(end, kTalkPause);
}

// Takes all completions from both queues; the order within one is kept.
void Talk::Fetch(End& end) {
  urnic_cqe cqe;
  for (const auto& cq : end.cqs) {
    if (cq == nullptr) continue;
    while (cq->Poll(cqe)) {
      end.fetched.push_back(cqe);
      end.fetched_receives +=
          cqe.status == URNIC_WC_SUCCESS && cqe.opcode >= URNIC_WC_RECV;
    }
  }
}

void Talk::Handle(End& end) {
  Fetch(end);
  // The peer's too, because our completions are compared with them.
  Fetch(PeerOf(end));
  while (!end.fetched.empty()) {
    const urnic_cqe cqe = end.fetched.front();
    end.fetched.pop_front();
    Require(cqe.qp_num == end.qp->qpn(), "a completion of another queue pair");
    if (cqe.opcode >= URNIC_WC_RECV) {
      OnReceived(end, cqe);
    } else {
      OnSent(end, cqe);
    }
  }
}

void Talk::PostReceives(End& end) {
  // Now and then there are too few, and the peer has to wait.
  const uint64_t most = random_.OneIn(8) ? 2 : kSlots;
  while (end.receives_posted - end.receives_done < most) {
    const auto slot = static_cast<uint32_t>(end.receives_posted % kSlots);
    const size_t offset = Offset(Area::kReceive, slot);
    Require(end.rings->PostRecv({.wr_id = end.receives_posted++,
                                 .sges = {{end.address(offset),
                                           config_.message_max, end.key}}}),
            "the receive ring is full");
  }
}

void Talk::PostRequests(End& end) {
  uint32_t posted = 0;
  while (end.posted < config_.messages && end.requests.size() < config_.depth &&
         !random_.OneIn(4)) {
    PostOne(end);
    ++posted;
  }
  if (posted != 0) end.host.engine().Doorbell(*end.qp);
}

void Talk::PostOne(End& end) {
  static constexpr uint8_t kOpcodes[] = {URNIC_WR_SEND,
                                         URNIC_WR_SEND_WITH_IMM,
                                         URNIC_WR_SEND,
                                         URNIC_WR_RDMA_WRITE_WITH_IMM,
                                         URNIC_WR_RDMA_WRITE,
                                         URNIC_WR_RDMA_READ,
                                         URNIC_WR_ATOMIC_FETCH_AND_ADD};
  End& peer = PeerOf(end);
  Message message;
  message.number = stats_.lives << 32 | end.posted++;
  message.opcode = kOpcodes[random_.Below(std::size(kOpcodes))];
  message.bytes = static_cast<uint32_t>(
      random_.Below(1 + (config_.message_max >> random_.Below(6))));
  while ((end.slots_used >> message.slot & 1) != 0) ++message.slot;
  end.slots_used |= 1u << message.slot;
  const size_t local = Offset(Area::kLocal, message.slot);
  testing::SendWr wr;
  wr.opcode = message.opcode;
  wr.wr_id = message.number;
  wr.imm_or_key = static_cast<uint32_t>(message.number * 7);
  wr.rkey = peer.key;
  switch (message.opcode) {
    case URNIC_WR_RDMA_READ:
      wr.remote_addr = peer.address(Offset(Area::kRead, message.slot));
      Fill(end, message.number, peer, Offset(Area::kRead, message.slot),
           message.bytes);
      break;
    case URNIC_WR_ATOMIC_FETCH_AND_ADD:
      wr.remote_addr = peer.address(peer.counter());
      wr.compare_add = 1;
      message.bytes = 8;
      message.place = end.atomics++;
      break;
    default:
      wr.remote_addr = peer.address(Offset(Area::kWritten, message.slot));
      Fill(end, message.number, end, local, message.bytes);
  }
  if (message.bytes != 0) {
    wr.sges = {{end.address(local), message.bytes, end.key}};
  }
  message.heard = end.receives_done;
  if (message.takes_receive()) message.place = end.receives_asked++;
  Require(end.rings->PostSend(wr), "the send ring is full");
  end.requests.push_back(message);
  if (message.takes_receive()) peer.heard.push_back(message);
  ++stats_.messages;
}

void Talk::OnSent(End& end, const urnic_cqe& cqe) {
  Require(!end.requests.empty(), "a completion too many");
  const Message message = end.requests.front();
  end.requests.pop_front();
  Require(cqe.wr_id == message.number, "requests complete out of order");
  ++end.completed;
  end.slots_used &= ~(1u << message.slot);
  if (cqe.status != URNIC_WC_SUCCESS) return Fail(end, cqe.status);
  Require(!end.failed, "a success behind an error");
  End& peer = PeerOf(end);
  if (message.takes_receive()) {
    ++end.sends_completed;
    Require(peer.fetched_receives > message.place,
            "a send is complete, and its receive is not");
  }
  const size_t local = Offset(Area::kLocal, message.slot);
  switch (message.opcode) {
    case URNIC_WR_RDMA_READ:
      CheckAndClear(end, message.number, end, local, message.bytes);
      return CheckAndClear(end, message.number, peer,
                           Offset(Area::kRead, message.slot), message.bytes);
    case URNIC_WR_ATOMIC_FETCH_AND_ADD: {
      uint64_t before = 0;
      std::memcpy(&before, &end.memory[local], 8);
      Require(before == message.place, "an atomic has counted wrong");
      std::memset(&end.memory[local], kTalkGuard, 8);
      return;
    }
    case URNIC_WR_RDMA_WRITE:
    case URNIC_WR_RDMA_WRITE_WITH_IMM:
      CheckAndClear(end, message.number, peer,
                    Offset(Area::kWritten, message.slot), message.bytes);
      break;
    default:
      break;
  }
  CheckAndClear(end, message.number, end, local, message.bytes);
}

void Talk::OnReceived(End& end, const urnic_cqe& cqe) {
  Require(cqe.wr_id == end.receives_done, "receives complete out of order");
  const auto slot = static_cast<uint32_t>(end.receives_done++ % kSlots);
  if (cqe.status != URNIC_WC_SUCCESS) return Fail(end, cqe.status);
  Require(!end.heard.empty(), "a message that nobody has sent");
  const Message message = end.heard.front();
  end.heard.pop_front();
  Require(cqe.byte_len == message.bytes, "a message of another length");
  const bool with_imm = message.opcode != URNIC_WR_SEND;
  Require(((cqe.wc_flags & URNIC_WC_WITH_IMM) != 0) == with_imm &&
              (!with_imm ||
               cqe.imm_or_key == static_cast<uint32_t>(message.number * 7)),
          "a message with another immediate");
  if (message.opcode != URNIC_WR_RDMA_WRITE_WITH_IMM) {
    CheckAndClear(PeerOf(end), message.number, end,
                  Offset(Area::kReceive, slot), message.bytes);
  }
  // The peer has already acknowledged what it had received when it wrote this:
  // with one request at a time, it is asked for an acknowledgement of each.
  if (config_.ordered && config_.depth == 1) {
    Require(end.sends_completed >= message.heard,
            "an answer appears before what it answers is complete");
  }
}

bool Talk::IsDone(const End& end) {
  return end.failed || (end.established && end.completed == config_.messages &&
                        end.heard.empty());
}

// --- Memory ------------------------------------------------------------------

uint8_t Talk::ByteOf(const End& end, uint64_t number, size_t at) const {
  const uint64_t x = (number * 2 + end.index) * 0x9e3779b97f4a7c15 + at * 40503;
  return static_cast<uint8_t>(x >> 23);
}

void Talk::Fill(End& from, uint64_t number, End& in, size_t offset,
                size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    in.memory[offset + i] = ByteOf(from, number, i);
  }
}

void Talk::CheckAndClear(End& from, uint64_t number, End& in, size_t offset,
                         size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    Require(in.memory[offset + i] == ByteOf(from, number, i),
            "other bytes than were sent");
  }
  for (size_t i = bytes; i < stride_; ++i) {
    Require(in.memory[offset + i] == kTalkGuard, "bytes behind the message");
  }
  std::memset(&in.memory[offset], kTalkGuard, bytes);
}

}  // namespace urnic::sim
