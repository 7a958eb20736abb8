#pragma once

// For tests: one queue pair of iWARP with a host, rings and a caller that does
// its duties (qp.h). A list of ULPDUs replaces MPA and TCP. Aborts if the core
// accesses a byte outside of the memory that it was given.

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/fake_host.h"
#include "tests/support/fake_rings.h"
#include "tests/support/random.h"
#include "transport/iwarp/rdmap/qp.h"

namespace urnic::rdmap::testing {

using Bytes = std::vector<uint8_t>;
using urnic::testing::FakeHost;
using urnic::testing::FakeRings;
using urnic::testing::OwnRecvQueue;
using urnic::testing::Random;
using urnic::testing::RecvWr;
using urnic::testing::SendWr;

inline constexpr uint32_t kPd = 1;
inline constexpr uint32_t kAllRights = mem::kLocalWrite | mem::kRemoteWrite |
                                       mem::kRemoteRead | mem::kRemoteAtomic |
                                       mem::kBindWindow | mem::kRelaxedOrdering;
inline constexpr Config kDefaultConfig{.access = kAllRights,
                                       .ird = 8,
                                       .ord = 8,
                                       .keep_bytes = 64,
                                       .immediate = ImmediateData::kMerged};

struct EndOptions {
  Config config = kDefaultConfig;
  uint32_t qpn = 0x11;
  uint32_t answers = 8;
  uint32_t sq_entries = 32;
  size_t memory = 512 * 1024;
  RecvRing* shared = nullptr;  // an SRQ instead of a ring of its own
  bool started = true;         // in RTS; otherwise in INIT
  // Of its memory, in requests and on the wire; 0: its own address.
  uint64_t iova = 0;
};

class RdmapEnd {
 public:
  static constexpr uint32_t kMaxSge = 4;

  explicit RdmapEnd(const EndOptions& options = {})
      : options_(options),
        host_(std::make_unique<FakeHost>(options.memory)),
        rings_(options.sq_entries, kMaxSge, 64, 32, kMaxSge) {
    key_ = host_->RegisterAt(kPd, 0, host_->size(), kAllRights, at(0));
    Renew();
    qp_->Modify(QpState::kInit, options.config);
    if (options.started) qp_->Modify(QpState::kRts, options.config);
  }

  // A new queue pair, on the same rings, takes the place of the old one.
  void Renew() {
    core_ = std::make_unique<Core>(*this);
    qp_ = &core_->qp;
    if (options_.shared != nullptr)
      core_->receives.queue().Use(options_.shared);
  }
  uint32_t answers() const { return options_.answers; }

  FakeHost& host() { return *host_; }
  FakeRings& rings() { return rings_; }
  Qp& qp() { return *qp_; }
  uint32_t key() const { return key_; }
  uint64_t at(size_t offset) const {
    return (options_.iova != 0 ? options_.iova : host_->address(0)) + offset;
  }
  urnic_sge Sge(size_t offset, uint32_t bytes) const {
    return {at(offset), bytes, key_};
  }
  void Fill(size_t offset, size_t bytes, uint8_t first) {
    for (uint8_t& byte : host_->bytes(offset, bytes)) byte = first++;
  }
  Bytes Read(size_t offset, size_t bytes) {
    const auto span = host_->bytes(offset, bytes);
    return {span.begin(), span.end()};
  }
  uint64_t Word(size_t offset) {
    uint64_t word;
    std::memcpy(&word, host_->bytes(offset, 8).data(), 8);
    return word;
  }
  void SetWord(size_t offset, uint64_t word) {
    std::memcpy(host_->bytes(offset, 8).data(), &word, 8);
  }

  bool Send(const SendWr& wr) { return rings_.PostSend(wr); }
  bool Recv(uint64_t wr_id, std::vector<urnic_sge> sges) {
    return rings_.PostRecv(RecvWr{.wr_id = wr_id, .sges = std::move(sges)});
  }

  // Up to `max` ULPDUs, each of at most mulpdu() bytes.
  std::vector<Bytes> Transmit(size_t max = SIZE_MAX) {
    std::vector<Bytes> sent;
    while (sent.size() < max) {
      const uint32_t limit = mulpdu_();
      const ddp::Cut cut = qp_->NextCut(limit, can_keep);
      if (cut.ulpdu_bytes == 0) break;
      URNIC_CHECK(cut.ulpdu_bytes <= limit);
      URNIC_CHECK(cut.keep != ddp::Keep::kMust || can_keep);
      Bytes ulpdu;
      if (!Build(cut.source, ulpdu)) {
        qp_->OnGatherFault(cut.source);
        lost_ = true;
        break;
      }
      URNIC_CHECK(ulpdu.size() == cut.ulpdu_bytes);
      const bool kept = cut.keep == ddp::Keep::kMust ||
                        (cut.keep != ddp::Keep::kNo && keep_small);
      qp_->OnSent(cut.source, kept);
      unacked_.push_back({cut.source, kept, ulpdu});
      sent.push_back(std::move(ulpdu));
      qp_->CheckInvariants();
    }
    Settle({});
    return sent;
  }

  // Acknowledges the oldest `count` ULPDUs.
  void Ack(size_t count = SIZE_MAX) {
    for (; count > 0 && !unacked_.empty(); --count) {
      qp_->OnAcked(unacked_.front().source);
      unacked_.pop_front();
    }
    qp_->CheckInvariants();
    Settle({});
  }
  // TCP sends everything again: the bytes must be the same. False: they cannot
  // be built.
  bool RebuildAll() {
    for (const Unacked& sent : unacked_) {
      if (sent.kept) continue;
      Bytes again;
      if (!Build(sent.source, again)) return false;
      URNIC_CHECK(again == sent.bytes);
    }
    return true;
  }
  size_t unacked() const { return unacked_.size(); }

  // Delivers one burst. ULPDUs arrive in pieces at random places if `cut_at` is
  // not null.
  void Receive(std::span<const Bytes> ulpdus, Random* cut_at = nullptr) {
    uint8_t position = 0;
    for (const Bytes& ulpdu : ulpdus) {
      std::vector<std::span<const uint8_t>> pieces;
      std::span<const uint8_t> rest(ulpdu);
      while (cut_at != nullptr && rest.size() > 1 && cut_at->Below(2) == 0) {
        const size_t part = 1 + cut_at->Below(rest.size() - 1);
        pieces.push_back(rest.first(part));
        rest = rest.subspan(part);
      }
      pieces.push_back(rest);
      verdicts.push_back(qp_->OnUlpdu(pieces, position++, *this));
    }
    Finish(*qp_);
  }
  void Receive(const Bytes& ulpdu) { Receive(std::span(&ulpdu, 1)); }

  // Executes the placements since the last call, and settles them with `core`,
  // which is the queue pair or an object around it.
  template <typename Core>
  FlowResult Finish(Core& core) {
    for (const Placement& placement : std::exchange(placements_, {})) {
      if (!Execute(placement)) {
        core.OnPlacementFault(placement, done_);
        break;
      }
    }
    qp_->CheckInvariants();
    const std::vector<RecvCompletion> done = std::exchange(done_, {});
    const FlowResult result = core.Settle(done, *this);
    if (result.event != QpEvent::kNone) event = result.event;
    return result;
  }

  void Settle(std::span<const RecvCompletion> done) {
    const FlowResult result = qp_->Settle(done, *this);
    if (result.event != QpEvent::kNone) event = result.event;
  }

  // Reads what a request or an answer names. False: it is not mapped.
  bool ReadMemory(uint64_t address, std::span<uint8_t> to) {
    if (!rings_.sq().Contains(address, to.size())) {
      URNIC_CHECK(host_->Allowed(address, to.size(), kPd, mem::kLocalRead));
      if (!host_->Readable(address, to.size())) return false;
    }
    std::memcpy(to.data(), reinterpret_cast<const void*>(address), to.size());
    return true;
  }

  // Called by the queue pair.
  void Place(const Placement& placement) { placements_.push_back(placement); }
  void Complete(const RecvCompletion& done) { done_.push_back(done); }
  void Sent(const SendCompletion& completion) {
    sent.push_back(completion);
    order.push_back(completion.wr_id);
    freed.push_back(rings_.sq().indices().consumer);
  }
  void Received(const RecvCompletion& completion) {
    received.push_back(completion);
    order.push_back(completion.wr_id);
    freed.push_back(rings_.rq().indices().consumer);
  }
  void Flushed(const RecvCompletion& completion) { Received(completion); }

  std::vector<SendCompletion> sent;
  std::vector<RecvCompletion> received;
  std::vector<uint64_t> order;  // of both
  // The index of the ring up to which entries were free, at each of them.
  std::vector<uint32_t> freed;
  std::vector<RxVerdict> verdicts;
  QpEvent event = QpEvent::kNone;
  uint64_t copied = 0;     // bytes, by placements
  bool can_keep = true;    // frames are free
  bool keep_small = true;  // the frames of small messages are kept
  bool lost() const { return lost_; }
  void SetMulpdu(uint32_t mulpdu) {
    mulpdu_ = [mulpdu] { return mulpdu; };
  }
  void SetMulpdu(std::function<uint32_t()> mulpdu) { mulpdu_ = mulpdu; }

 private:
  // What a move replaces.
  struct Core {
    explicit Core(RdmapEnd& end)
        : records(end.options_.sq_entries),
          answers(end.options_.answers),
          receives(end.rings_.rq().view(), kMaxSge,
                   end.options_.shared != nullptr, kPd),
          qp(QpLimits{.qpn = end.options_.qpn,
                      .pd = kPd,
                      .max_sge_send = kMaxSge,
                      .max_sge_recv = kMaxSge,
                      .max_inline = 64},
             end.rings_.sq().view(), records, &receives.queue(), answers,
             &end.host_->mrs()) {}
    std::vector<SendRecord> records;
    std::vector<Answer> answers;
    OwnRecvQueue receives;
    Qp qp;
  };
  struct Unacked {
    uint64_t source;
    bool kept;
    Bytes bytes;
  };

  bool Build(uint64_t source, Bytes& ulpdu) {
    uint8_t headers[ddp::kMaxUlpduHeaderBytes];
    TxSlot slot;
    slot.headers = headers;
    if (!qp_->Build(source, slot)) return false;
    ulpdu.assign(headers, headers + slot.header_bytes);
    for (uint32_t i = 0; i < slot.segment_count; ++i) {
      const Segment& segment = slot.segments[i];
      const bool in_ring = !slot.from_responder &&
                           rings_.sq().Contains(segment.address, segment.bytes);
      URNIC_CHECK(in_ring ||
                  host_->Allowed(segment.address, segment.bytes, kPd,
                                 slot.from_responder ? mem::kRemoteRead
                                                     : mem::kLocalRead));
      if (!in_ring && !host_->Readable(segment.address, segment.bytes)) {
        return false;
      }
      const auto* data = reinterpret_cast<const uint8_t*>(segment.address);
      ulpdu.insert(ulpdu.end(), data, data + segment.bytes);
    }
    return true;
  }

  bool Execute(const Placement& placement) {
    URNIC_CHECK(placement.bytes != 0);
    uint32_t rights = placement.from_responder && !placement.to_receive
                          ? mem::kRemoteWrite
                          : mem::kLocalWrite;
    if (placement.kind != Placement::Kind::kCopy) rights = mem::kRemoteAtomic;
    URNIC_CHECK(host_->Allowed(placement.target, placement.bytes, kPd, rights));
    if (!host_->Writable(placement.target, placement.bytes)) return false;
    auto* target = reinterpret_cast<uint8_t*>(placement.target);
    if (placement.kind == Placement::Kind::kCopy) {
      std::memcpy(target, placement.source, placement.bytes);
      copied += placement.bytes;
      return true;
    }
    URNIC_CHECK(placement.bytes == 8 && placement.target % 8 == 0);
    uint64_t value;
    std::memcpy(&value, target, 8);
    *placement.original = value;
    if (placement.kind == Placement::Kind::kMasked) {
      value = MaskedAtomic::Of(placement.original).Apply(value);
    } else if (placement.kind == Placement::Kind::kFetchAdd) {
      value += placement.swap_or_add;
    } else if (value == placement.compare) {
      value = placement.swap_or_add;
    }
    std::memcpy(target, &value, 8);
    return true;
  }

  const EndOptions options_;
  std::unique_ptr<FakeHost> host_;
  FakeRings rings_;
  std::unique_ptr<Core> core_;
  Qp* qp_ = nullptr;  // in core_
  uint32_t key_ = 0;
  bool lost_ = false;
  std::function<uint32_t()> mulpdu_ = [] { return 1442u; };
  std::deque<Unacked> unacked_;
  std::vector<Placement> placements_;
  std::vector<RecvCompletion> done_;
};

// Exchanges what both have to send until nothing is left.
inline void Exchange(RdmapEnd& a, RdmapEnd& b) {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
      const std::vector<Bytes> ulpdus = from->Transmit(kRunMax);
      if (ulpdus.empty()) continue;
      moved = true;
      to->Receive(ulpdus);
      from->Ack();
    }
  }
}

}  // namespace urnic::rdmap::testing
