#include "tests/sim/iwarp_flow.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace urnic::sim {
namespace {

// Where byte `offset` of a list is, and how many follow it in one piece.
std::pair<uint64_t, uint32_t> InList(const std::vector<urnic_sge>& sges,
                                     uint32_t offset) {
  for (const urnic_sge& sge : sges) {
    if (offset < sge.length) return {sge.addr + offset, sge.length - offset};
    offset -= sge.length;
  }
  return {0, 0};
}

bool IsSolicited(const IwarpRequest& request) {
  return (request.wr.flags & URNIC_SEND_SOLICITED) != 0;
}

}  // namespace

bool IwarpFlow::Post(IwarpRequest request) {
  request.wr.wr_id = requests_.size();
  if (request.kind().takes_receive()) request.receive = next_receive_;
  if (!from_.PostSend(request.wr)) return false;
  if (request.kind().takes_receive()) ++next_receive_;
  if (request.trouble) may_fail_ = true;
  requests_.push_back(std::move(request));
  Advance();
  return true;
}

bool IwarpFlow::uses(int grant) const {
  for (size_t i = std::min(executed_, completed_); i != requests_.size(); ++i) {
    if (requests_[i].grant == grant) return true;
  }
  return false;
}

// --- At the peer -------------------------------------------------------------

// Passes what has nothing to place, or has placed everything.
void IwarpFlow::Advance() {
  while (executed_ != requests_.size()) {
    IwarpRequest& request = requests_[executed_];
    if (request.trouble) return;
    if (request.places() && request.placed != request.bytes) return;
    request.since = to_.memory().stamp();
    ++executed_;
  }
}

void IwarpFlow::CheckFence(size_t index) const {
  if (!requests_[index].fenced()) return;
  for (size_t i = 0; i < index; ++i) {
    const IwarpRequest& earlier = requests_[i];
    Require(!earlier.kind().answered() || earlier.answered == earlier.bytes,
            "a fenced request does not wait for answers");
  }
}

void IwarpFlow::OnPlaced(const Placement& placement) {
  Require(executed_ != requests_.size(), "nothing is under way, but is placed");
  IwarpRequest& request = requests_[executed_];
  Require(request.kind().gathers(), "a placement for another kind of request");
  CheckFence(executed_);
  CheckPlaced(request, placement);
  request.placed += placement.bytes;
  Advance();
}

void IwarpFlow::CheckPlaced(const IwarpRequest& request,
                            const Placement& placement) {
  const uint32_t limit = request.trouble ? request.placeable : request.bytes;
  Require(placement.bytes <= limit - std::min(limit, request.placed),
          "more is placed than the request may");
  Require(std::memcmp(placement.source, request.data.data() + request.placed,
                      placement.bytes) == 0,
          "other bytes are placed than the request has");
  const bool send = request.kind().family == RequestFamily::kSend;
  Require(placement.to_receive == send, "a placement of the other kind");
  if (!send) {
    Require(placement.target == request.wr.remote_addr + request.placed,
            "a write is placed elsewhere");
    return;
  }
  Require(request.receive >= to_.first_receive() &&
              request.receive < to_.posted_receives(),
          "a send is placed without a receive");
  const auto [at, room] =
      InList(to_.receive(request.receive).sges, request.placed);
  Require(placement.target == at && placement.bytes <= room,
          "a send is placed elsewhere");
}

uint64_t IwarpFlow::OnAtomic(const Placement& placement, uint64_t word) {
  Require(executed_ != requests_.size(), "nothing is under way, but an atomic");
  IwarpRequest& request = requests_[executed_];
  const testing::SendWr& wr = request.wr;
  Require(!request.trouble && request.placed == 0 &&
              request.kind().family == RequestFamily::kAtomic,
          "an atomic for another kind of request");
  CheckFence(executed_);
  Require(placement.target == wr.remote_addr && placement.bytes == 8,
          "an atomic is executed elsewhere");
  request.original = word;
  request.placed = 8;
  Advance();
  if (wr.opcode == URNIC_WR_ATOMIC_FETCH_AND_ADD) {
    Require(placement.kind == Placement::Kind::kFetchAdd &&
                placement.swap_or_add == wr.compare_add,
            "an atomic has other operands");
    return word + wr.compare_add;
  }
  Require(placement.kind == Placement::Kind::kCompareSwap &&
              placement.compare == wr.compare_add &&
              placement.swap_or_add == wr.swap,
          "an atomic has other operands");
  return word == wr.compare_add ? wr.swap : word;
}

void IwarpFlow::OnReceived(const RecvCompletion& done) {
  if (done.status != URNIC_WC_SUCCESS) {
    Require(to_.broken(), "a receive fails while the connection is alive");
    flushed_ = true;
    return;
  }
  Require(!flushed_, "a receive succeeds behind an error");
  while (received_ != requests_.size() &&
         !requests_[received_].kind().takes_receive()) {
    ++received_;
  }
  Require(received_ < executed_, "a receive completes before its message");
  const IwarpRequest& request = requests_[received_++];
  Require(request.receive == done.wr_id, "a message takes another receive");
  const bool write = request.kind().family == RequestFamily::kWrite;
  Require(done.opcode == (write ? URNIC_WC_RECV_RDMA_WITH_IMM : URNIC_WC_RECV),
          "a receive has the opcode of another message");
  Require(done.byte_len == request.bytes, "a receive has another length");
  Require(done.solicited == IsSolicited(request),
          "a receive is solicited, or not, by mistake");
  const bool invalidates = request.wr.opcode == URNIC_WR_SEND_WITH_INV;
  const uint8_t flags = invalidates               ? URNIC_WC_WITH_INV
                        : request.kind().with_imm ? URNIC_WC_WITH_IMM
                                                  : 0;
  Require(done.wc_flags == flags &&
              (flags == 0 || done.imm_or_key == request.wr.imm_or_key),
          "a receive has other immediate data");
}

// --- At our end --------------------------------------------------------------

void IwarpFlow::OnAnswered(const Placement& placement) {
  const auto waits = [this](const IwarpRequest& request) {
    return request.kind().answered() && request.answered != request.bytes;
  };
  while (answered_ != requests_.size() && !waits(requests_[answered_])) {
    ++answered_;
  }
  Require(answered_ < executed_, "an answer comes before its request");
  IwarpRequest& request = requests_[answered_];
  const auto [at, room] = InList(request.wr.sges, request.answered);
  Require(placement.target == at && placement.bytes <= room,
          "an answer is placed elsewhere");
  const std::span<const uint8_t> bytes(placement.source, placement.bytes);
  if (request.kind().family == RequestFamily::kAtomic) {
    const auto* word = reinterpret_cast<const uint8_t*>(&request.original);
    Require(std::ranges::equal(bytes, std::span(word, 8).subspan(
                                          request.answered, placement.bytes)),
            "an atomic returns another word");
  } else {
    const size_t source =
        to_.memory().OffsetOf(request.wr.remote_addr) + request.answered;
    Require(to_.memory().Held(source, bytes, request.since),
            "a read returns what the memory never held");
  }
  request.answered += placement.bytes;
  while (answered_ != requests_.size() && !waits(requests_[answered_])) {
    ++answered_;
  }
  if (answered_ == requests_.size()) to_.memory().ForgetPast();
}

void IwarpFlow::OnSent(const SendCompletion& done) {
  Require(completed_ != requests_.size(), "a request completes twice");
  if (done.status == URNIC_WC_SUCCESS) {
    Require(!failed_, "a request succeeds behind an error");
    while (requests_[completed_].wr.wr_id != done.wr_id) {
      Require(!requests_[completed_].signaled(), "a completion is left out");
      CheckSuccess(completed_);
      Complete();
      Require(completed_ != requests_.size(), "an unknown request completes");
    }
    Require(done.opcode == requests_[completed_].kind().completion,
            "a completion has another opcode");
    CheckSuccess(completed_);
    ++succeeded_;
    Complete();
    return;
  }
  if (!may_fail_) {
    Violate("a request fails with status " + std::to_string(done.status));
  }
  // After an error, all requests complete; before it, only the signaled ones.
  while (!failed_ && requests_[completed_].wr.wr_id != done.wr_id) {
    Require(!requests_[completed_].signaled(), "a completion is left out");
    CheckSuccess(completed_);
    Complete();
    Require(completed_ != requests_.size(), "an unknown request fails");
  }
  failed_ = true;
  Require(requests_[completed_].wr.wr_id == done.wr_id,
          "requests are not flushed in order");
  Complete();
}

void IwarpFlow::CheckSuccess(size_t index) {
  const IwarpRequest& request = requests_[index];
  const RequestKind& kind = request.kind();
  if (kind.answered()) {
    Require(!request.trouble, "a request succeeds that must not");
    Require(request.answered == request.bytes,
            "a request completes before its answer");
    return;
  }
  if (kind.local()) {
    Require(!request.trouble, "a local request succeeds that must not");
    return;
  }
  // TCP has acknowledged it, so its bytes have arrived, unless the peer does
  // not listen any more.
  const bool kept =
      !kind.with_imm && request.bytes <= from_.choice().config.keep_bytes;
  Require(kept || to_.broken() || damaged_ ||
              (index < executed_ && !request.trouble),
          "a request completes before its data are placed");
}

bool IwarpFlow::served() const {
  if (failed_ || executed_ != requests_.size()) return false;
  return std::all_of(requests_.begin() + static_cast<long>(completed_),
                     requests_.end(), [](const IwarpRequest& request) {
                       return !request.signaled() &&
                              (!request.kind().answered() ||
                               request.answered == request.bytes);
                     });
}

void IwarpFlow::Finish() {
  while (completed_ != requests_.size()) {
    Require(!failed_ && !requests_[completed_].signaled(),
            "a request does not complete");
    CheckSuccess(completed_);
    Complete();
  }
}

void IwarpFlow::Complete() {
  for (const size_t slot : requests_[completed_].slots) {
    from_.memory().ReleaseSlot(slot);
  }
  ++completed_;
}

}  // namespace urnic::sim
