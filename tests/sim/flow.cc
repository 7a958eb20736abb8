#include "tests/sim/flow.h"

#include <algorithm>
#include <cstring>

#include "transport/rc/qp.h"
#include "transport/work/request.h"

namespace urnic::sim {
namespace {

bool TakesReceive(uint8_t opcode) {
  return Contains(kRequestsThatTakeAReceive, opcode);
}

bool IsWrite(uint8_t opcode) {
  return FindRequest(opcode)->family == RequestFamily::kWrite;
}

// Requests that leave data in the peer's memory.
bool Stores(uint8_t opcode) {
  return IsWrite(opcode) || opcode == URNIC_WR_ATOMIC_WRITE;
}

bool IsAtomic(uint8_t opcode) {
  return FindRequest(opcode)->family == RequestFamily::kAtomic;
}

// Completed by responses of its own, not by an ACK.
bool IsAnswered(uint8_t opcode) {
  return IsAtomic(opcode) || opcode == URNIC_WR_RDMA_READ ||
         opcode == URNIC_WR_FLUSH || opcode == URNIC_WR_ATOMIC_WRITE;
}

// A key that may be invalidated.
uint32_t NewKey(RcEnd& end) {
  return end.memory().Register(end.options().pd, 0, 8, mem::kRemoteInvalidate);
}

void RequireDead(RcEnd& end, uint32_t key) {
  ProgramMemory& memory = end.memory();
  Require(!end.keys()
               .Check(MrKey{key}, end.options().pd, memory.address(0), 0, 0)
               .ok(),
          "an invalidated key is alive");
  memory.Deregister(key);
}

std::span<const uint8_t> BytesOf(const uint64_t& value) {
  return {reinterpret_cast<const uint8_t*>(&value), 8};
}

}  // namespace

// --- The program -----------------------------------------------------------

uint8_t Flow::PickOpcode() {
  for (;;) {
    switch (random_.Below(13)) {
      case 0:
      case 1:
        return URNIC_WR_RDMA_WRITE;
      case 2:
        return URNIC_WR_RDMA_WRITE_WITH_IMM;
      case 3:
      case 4:
        return URNIC_WR_SEND;
      case 5:
        return URNIC_WR_SEND_WITH_IMM;
      case 6:
        return random_.OneIn(3) ? URNIC_WR_SEND_WITH_INV : URNIC_WR_SEND;
      case 7:
      case 8:
        if (config_.reads) return URNIC_WR_RDMA_READ;
        break;
      case 9:
        if (config_.reads) return URNIC_WR_FLUSH;
        break;
      case 10:
        if (config_.reads) return URNIC_WR_ATOMIC_WRITE;
        break;
      case 11:
        return URNIC_WR_LOCAL_INV;
      default:
        if (config_.atomics) {
          return random_.OneIn(2) ? URNIC_WR_ATOMIC_CMP_AND_SWP
                                  : URNIC_WR_ATOMIC_FETCH_AND_ADD;
        }
    }
  }
}

// Empty, tiny, around a multiple of the MTU, or anything.
uint32_t Flow::PickLength() {
  uint64_t length = 0;
  switch (random_.Below(8)) {
    case 0:
      return 0;
    case 1:
    case 2:
      length = 1 + random_.Below(64);
      break;
    case 3:
    case 4:
      length = config_.mtu * (1 + random_.Below(4)) + random_.Below(3) - 1;
      break;
    default:
      length = random_.Below(config_.message_max + 1);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(length, config_.message_max));
}

// Up to max_sge pieces of the slot, with gaps between them, in any order.
std::vector<Flow::Piece> Flow::Cut(const SlotPool& pool, size_t slot,
                                   uint32_t length) {
  const auto count = static_cast<uint32_t>(random_.Below(config_.max_sge + 1));
  std::vector<Piece> pieces;
  size_t spare = pool.slot_bytes() - length;
  size_t at = slot;
  uint32_t left = length;
  for (uint32_t i = 0; i < std::max(1u, count); ++i) {
    if (count == 0 && length == 0) break;
    const bool last = i + 1 == std::max(1u, count);
    const auto bytes =
        last ? left : static_cast<uint32_t>(random_.Below(left + 1));
    const size_t gap = random_.Below(spare + 1) / 2;
    spare -= gap;
    pieces.push_back({at + gap, bytes});
    at += gap + bytes;
    left -= bytes;
  }
  for (size_t i = pieces.size(); i > 1; --i) {
    std::swap(pieces[i - 1], pieces[random_.Below(i)]);
  }
  return pieces;
}

bool Flow::PostRequests() {
  bool posted = false;
  for (uint64_t n = random_.Below(5); n != 0 && !posted_all(); --n) {
    if (from_.end->rings().sq().full() || from_.local->empty() ||
        to_.remote->empty()) {
      if (failed_) late_posts_ = 0;  // lost slots never come back
      break;
    }
    PostOne();
    posted = true;
  }
  return posted;
}

void Flow::PostOne() {
  Request request{.id = next_id_++, .opcode = PickOpcode()};
  if (failed_) --late_posts_;
  testing::SendWr wr{.opcode = request.opcode, .flags = 0};
  wr.wr_id = request.id;
  // Slots come back only with signaled completions.
  request.signaled = random_.OneIn(2) || posted_all() || pending_.size() > 4 ||
                     from_.end->options().sq_sig_all;
  if (request.signaled && !from_.end->options().sq_sig_all) {
    wr.flags |= URNIC_SEND_SIGNALED;
  }
  request.fenced = random_.OneIn(10);
  if (request.fenced) wr.flags |= URNIC_SEND_FENCE;
  if (random_.OneIn(3)) wr.flags |= URNIC_SEND_SOLICITED;
  if (IsAtomic(request.opcode)) {
    PrepareAtomic(request, wr);
  } else if (request.opcode == URNIC_WR_RDMA_READ) {
    PrepareRead(request, wr);
  } else if (request.opcode == URNIC_WR_FLUSH) {
    PrepareFlush(request, wr);
  } else if (request.opcode == URNIC_WR_LOCAL_INV) {
    request.invalidated = wr.imm_or_key = NewKey(*from_.end);
  } else {
    PrepareData(request, wr);
  }
  AssignPsns(request);
  wr.xrc_srqn = to_.end->srqn();
  if (config_.bad_request == request.id) Spoil(request, wr);
  Require(from_.end->rings().PostSend(wr), "a send queue that is full");
  pending_.push_back(std::move(request));
}

void Flow::AssignPsns(Request& request) {
  if (request.opcode == URNIC_WR_LOCAL_INV) {
    request.packets = 0;
    from_.end->order().OnPostedLocal(request.id);
    return;
  }
  const size_t bytes = IsAtomic(request.opcode) ? 8 : request.content.size();
  request.first_psn = next_psn_;
  request.packets = static_cast<int32_t>(
      std::max<size_t>(1, (bytes + config_.mtu - 1) / config_.mtu));
  next_psn_ = next_psn_ + request.packets;
  from_.end->order().OnPosted({.id = request.id,
                               .signaled = request.signaled,
                               .answered = IsAnswered(request.opcode),
                               .end = next_psn_});
}

void Flow::PrepareRemote(Request& request, testing::SendWr& wr,
                         uint32_t length) {
  request.remote = to_.remote->Take(random_);
  const size_t room = to_.remote->slot_bytes() - length;
  request.remote_at = *request.remote + random_.Below(room + 1);
  if (request.opcode == URNIC_WR_ATOMIC_WRITE) {
    request.remote_at = (*request.remote + 7) & ~size_t{7};
  }
  wr.remote_addr = to_.remote->image().host().address(request.remote_at) +
                   to_.remote_iova_shift;
  wr.rkey = to_.remote_key;
}

void Flow::PrepareData(Request& request, testing::SendWr& wr) {
  const bool atomic_write = request.opcode == URNIC_WR_ATOMIC_WRITE;
  uint32_t length = atomic_write ? 8 : PickLength();
  if (random_.OneIn(4) && config_.max_inline >= 8) {
    if (!atomic_write) {
      length = static_cast<uint32_t>(random_.Below(config_.max_inline)) + 1;
    }
    for (uint32_t i = 0; i < length; ++i) {
      request.content.push_back(random_.Byte());
    }
    wr.inline_data = request.content;
  } else {
    request.local = from_.local->Take(random_);
    request.pieces = Cut(*from_.local, *request.local, length);
    Image& image = from_.local->image();
    for (const Piece& piece : request.pieces) {
      const auto bytes = image.want(piece.offset, piece.bytes);
      request.content.insert(request.content.end(), bytes.begin(), bytes.end());
      wr.sges.push_back(
          {image.host().address(piece.offset), piece.bytes, from_.local_key});
    }
  }
  if (Stores(request.opcode)) PrepareRemote(request, wr, length);
  if (request.opcode == URNIC_WR_SEND_WITH_INV) {
    request.invalidated = wr.imm_or_key = NewKey(*to_.end);
  } else {
    request.immediate = static_cast<uint32_t>(random_.Next());
    wr.imm_or_key = request.immediate;
  }
  if (TakesReceive(request.opcode)) {
    request.message_number = ++messages_posted_;
    messages_.push_back(request);
  }
}

void Flow::PrepareRead(Request& request, testing::SendWr& wr) {
  const uint32_t length = PickLength();
  PrepareRemote(request, wr, length);
  const auto bytes = to_.remote->image().want(request.remote_at, length);
  request.content.assign(bytes.begin(), bytes.end());
  request.local = from_.local->Take(random_);
  request.pieces = Cut(*from_.local, *request.local, length);
  for (const Piece& piece : request.pieces) {
    wr.sges.push_back({from_.end->memory().address(piece.offset), piece.bytes,
                       from_.local_key});
  }
}

// Flushes a range, or everything that the key names.
void Flow::PrepareFlush(Request& request, testing::SendWr& wr) {
  const auto length = static_cast<uint32_t>(random_.Below(1000));
  PrepareRemote(request, wr, length);
  wr.compare_add = URNIC_FLUSH_GLOBAL;
  if (random_.OneIn(2)) wr.compare_add |= URNIC_FLUSH_MR;
  wr.swap = length;
}

void Flow::PrepareAtomic(Request& request, testing::SendWr& wr) {
  request.local = from_.local->Take(random_);
  request.pieces = {{*request.local + random_.Below(16), 8}};
  wr.sges = {{from_.end->memory().address(request.pieces[0].offset), 8,
              from_.local_key}};
  const size_t word = to_.atomic_words + 8 * random_.Below(kAtomicWords);
  wr.remote_addr = to_.end->memory().address(word);
  wr.rkey = to_.atomic_key;
  wr.compare_add = random_.Below(4);
  wr.swap = random_.Below(4);
  atomics_.push_back(
      Atomic{.swap = request.opcode == URNIC_WR_ATOMIC_CMP_AND_SWP,
             .target = wr.remote_addr,
             .compare_add = wr.compare_add,
             .swap_value = wr.swap});
  request.atomic_number = atomics_.size();
}

// Makes a request that cannot succeed (unless it is empty).
void Flow::Spoil(Request& request, testing::SendWr& wr) {
  if (config_.bad_here) {
    if (wr.sges.empty()) return;
    wr.sges.back().lkey ^= 0x100;
    request.spoiled = wr.sges.back().length != 0;
    return;
  }
  // A flush may name a region and no bytes.
  request.spoiled =
      IsAtomic(request.opcode) || (request.remote && !request.content.empty());
  switch (random_.Below(3)) {
    case 0:
      wr.rkey ^= 1;
      break;
    case 1:
      wr.remote_addr += uint64_t{1} << 40;
      break;
    default: {  // a key without the right
      const uint64_t shift = to_.remote_iova_shift;
      wr.rkey = to_.receive_key;
      wr.remote_addr = to_.end->memory().address(to_.receive->begin()) +
                       (wr.remote_addr - shift) % 64;
    }
  }
}

bool Flow::PostReceives(bool all) {
  bool posted = false;
  uint64_t n = all ? config_.receive_depth : random_.Below(3);
  for (; n != 0 && receives_.size() < config_.receive_depth; --n) {
    if (to_.end->rings().rq().full() || to_.receive->empty()) break;
    if (receive_failed_ && late_receives_-- == 0) {
      late_receives_ = 0;
      break;
    }
    Receive receive{.id = next_receive_id_++,
                    .slot = to_.receive->Take(random_)};
    uint32_t capacity = config_.message_max;
    if (config_.small_receive == receive.id) capacity = 1;
    receive.pieces = Cut(*to_.receive, receive.slot, capacity);
    testing::RecvWr wr{.wr_id = receive.id};
    for (const Piece& piece : receive.pieces) {
      wr.sges.push_back({to_.end->memory().address(piece.offset), piece.bytes,
                         to_.receive_key});
    }
    Require(to_.end->rings().PostRecv(wr), "a receive queue that is full");
    receives_.push_back(std::move(receive));
    posted = true;
  }
  return posted;
}

// --- The oracle ------------------------------------------------------------

void Flow::OnSendDone(const Completion& done) {
  // Unsignaled requests before this one have succeeded silently. After an
  // error every request completes for itself.
  while (!pending_.empty() && pending_.front().id != done.wr_id) {
    Require(!failed_, "a request was left out of the flush");
    Require(!pending_.front().signaled, "a signaled request did not complete");
    Succeed(pending_.front());
    pending_.pop_front();
  }
  Require(!pending_.empty(), "a completion of nothing");
  Request& request = pending_.front();
  if (done.status == URNIC_WC_SUCCESS) {
    Require(!failed_, "a success after an error");
    Require(request.signaled, "a completion of an unsignaled request");
    Succeed(request);
  } else {
    if (failed_) {
      Require(done.status == URNIC_WC_WR_FLUSH_ERR, "an error after an error");
    } else {
      first_error_ = done.status;
    }
    failed_ = true;
    Fail(request);
  }
  pending_.pop_front();
}

void Flow::Succeed(Request& request) {
  ++succeeded_;
  Require(!request.spoiled, "a request with a bad key has succeeded");
  if (TakesReceive(request.opcode)) {
    Require(messages_received_ >= request.message_number,
            "a message was acknowledged before it was received");
  }
  if (request.opcode == URNIC_WR_LOCAL_INV) {
    RequireDead(*from_.end, request.invalidated);
  }
  if (IsAtomic(request.opcode)) {
    Require(atomic_results_.size() >= request.atomic_number,
            "an atomic completed before it was executed");
    request.content.resize(8);
    std::memcpy(request.content.data(),
                &atomic_results_[request.atomic_number - 1], 8);
  }
  if (request.local) {
    // The data of a read or an atomic. All other requests leave the slot
    // unchanged.
    size_t at = 0;
    const bool fetches =
        request.opcode == URNIC_WR_RDMA_READ || IsAtomic(request.opcode);
    for (const Piece& piece : request.pieces) {
      if (!fetches) break;
      from_.local->image().Expect(
          piece.offset, std::span(request.content).subspan(at, piece.bytes));
      at += piece.bytes;
    }
    from_.local->Check(*request.local, fetches ? "fetched data" : "a source");
    from_.local->Release(*request.local, random_);
  }
  if (request.remote) {
    if (Stores(request.opcode)) {
      to_.remote->image().Expect(request.remote_at, request.content);
    }
    to_.remote->Check(*request.remote, "written data");
    to_.remote->Release(*request.remote, random_);
  }
}

void Flow::Fail(Request& request) {
  if (request.local) from_.local->Lose(*request.local);
  if (request.remote) to_.remote->Lose(*request.remote);
}

void Flow::OnReceiveDone(const Completion& done) {
  Require(!receives_.empty(), "a completion without a receive");
  const Receive receive = std::move(receives_.front());
  receives_.pop_front();
  Require(receive.id == done.wr_id, "receives complete out of order");
  if (done.status != URNIC_WC_SUCCESS) {
    // The first one may be half full; the others are untouched.
    if (receive_failed_) {
      to_.receive->Check(receive.slot, "a flushed receive");
      to_.receive->Release(receive.slot, random_);
    } else {
      to_.receive->Lose(receive.slot);
    }
    receive_failed_ = true;
    return;
  }
  Require(!receive_failed_, "a receive succeeds after one has failed");
  Require(!messages_.empty(), "a message that nobody has sent");
  CheckMessage(messages_.front(), receive, done);
  messages_.pop_front();
  ++messages_received_;
  to_.receive->Release(receive.slot, random_);
}

void Flow::CheckMessage(const Request& message, const Receive& receive,
                        const Completion& done) {
  const bool write = IsWrite(message.opcode);
  Require(done.opcode == (write ? URNIC_WC_RECV_RDMA_WITH_IMM : URNIC_WC_RECV),
          "a receive has the wrong opcode");
  Require(done.byte_len == message.content.size(),
          "a receive has the wrong length");
  if (message.opcode == URNIC_WR_SEND_WITH_INV) {
    Require(done.wc_flags == URNIC_WC_WITH_INV &&
                done.imm_or_key == message.invalidated,
            "a receive names the wrong invalidated key");
    RequireDead(*to_.end, message.invalidated);
  } else if (message.opcode != URNIC_WR_SEND) {
    Require(done.wc_flags == URNIC_WC_WITH_IMM &&
                done.imm_or_key == message.immediate,
            "a receive has the wrong immediate data");
  }
  if (write) {
    const auto have =
        to_.end->memory().bytes(message.remote_at, message.content.size());
    Require(std::equal(have.begin(), have.end(), message.content.begin()),
            "a write with immediate completed before its data");
  } else {
    size_t at = 0;
    for (const Piece& piece : receive.pieces) {
      const size_t bytes =
          std::min<size_t>(piece.bytes, message.content.size() - at);
      to_.receive->image().Expect(
          piece.offset, std::span(message.content).subspan(at, bytes));
      at += bytes;
    }
  }
  to_.receive->Check(receive.slot, "received data");
}

// The request with this PSN is being executed: its fence must have been kept.
void Flow::CheckFence(Psn placed) const {
  const uint32_t una = from_.end->core().send_state().una;
  bool fetch_before = false;  // one that is not complete
  for (const Request& request : pending_) {
    if (placed - request.first_psn < 0) return;
    if (request.fenced && placed - request.first_psn < request.packets) {
      Require(!fetch_before, "a fenced request has overtaken a read");
      return;
    }
    const bool fetches =
        request.opcode == URNIC_WR_RDMA_READ || IsAtomic(request.opcode);
    fetch_before |= fetches && una < request.id;
  }
}

void Flow::OnPlaced(const Placement& placement) {
  const Psn psn(placement.origin);
  if (last_placed_) {
    Require(psn - *last_placed_ >= 0, "a packet is placed again or late");
    if (psn != *last_placed_) bytes_of_last_ = 0;
  }
  last_placed_ = psn;
  CheckFence(psn);
  bytes_of_last_ += placement.bytes;
  Require(bytes_of_last_ <= config_.mtu, "a packet is placed twice");
  if (placement.kind == Placement::Kind::kCopy) return;

  Require(bytes_of_last_ == 8, "an atomic is executed twice");
  Require(atomic_results_.size() < atomics_.size(),
          "an atomic that nobody has posted");
  const Atomic& atomic = atomics_[atomic_results_.size()];
  const bool swap = placement.kind == Placement::Kind::kCompareSwap;
  Require(atomic.swap == swap && atomic.target == placement.target &&
              placement.swap_or_add ==
                  (swap ? atomic.swap_value : atomic.compare_add) &&
              (!swap || placement.compare == atomic.compare_add),
          "an atomic is executed out of order or with wrong operands");
  const size_t offset = to_.end->memory().OffsetOf(placement.target);
  Image& image = to_.remote->image();
  uint64_t before;
  std::memcpy(&before, image.want(offset, 8).data(), 8);
  Require(*placement.original == before, "an atomic gives a wrong value");
  uint64_t after = before;
  if (!swap) after = before + atomic.compare_add;
  if (swap && before == atomic.compare_add) after = atomic.swap_value;
  image.Expect(offset, BytesOf(after));
  image.Check(offset, 8, "an atomic word");
  atomic_results_.push_back(before);
}

void Flow::CheckAtEnd() {
  const bool error = from_.end->state() == QpState::kErr;
  Require(error || !failed_, "an error without state ERR");
  Require(pending_.empty(), "a request that never completed");
  const rc::SendState& s = from_.end->core().send_state();
  Require(s.deadline().IsInfinite(), "a timer runs with nothing to wait for");
  Require(!from_.end->HasWork(), "work that nobody does");
  const urnic_queue_indices& sq = from_.end->rings().sq().indices();
  Require(sq.consumer == sq.producer, "send credits are lost");
  const urnic_queue_indices& rq = to_.end->rings().rq().indices();
  // A receive that was being filled when the sender failed has left the ring.
  const size_t in_ring = rq.producer - rq.consumer;
  Require(in_ring == receives_.size() ||
              (failed_ && in_ring + 1 == receives_.size()),
          "receive credits are lost");
  // In a shared queue, the others stay for other queue pairs.
  if (to_.end->state() == QpState::kErr && !to_.end->options().xrc) {
    Require(receives_.empty(), "a receive that was not flushed");
  }
  while (!receives_.empty()) {
    to_.receive->Lose(receives_.front().slot);
    receives_.pop_front();
  }
  if (!failed_ && !receive_failed_) {
    Require(messages_.empty(), "a message that was never received");
    Require(atomics_.size() == atomic_results_.size(),
            "an atomic that was never executed");
  }
}

}  // namespace urnic::sim
