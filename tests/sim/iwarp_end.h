#pragma once

// One end of the connections of a run: a queue pair with its rings and memory,
// and the endpoint of the connection that it has now. Does what an engine does:
// hands in bursts, executes placements, settles, sends while there is work, and
// calls timers, sometimes late. Each placement is judged before it is executed,
// so the core cannot change a byte that the oracle does not allow.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "datapath/engine/iwarp_input_tap.h"
#include "ras/inputs/input_log.h"
#include "tests/sim/iwarp_memory.h"
#include "tests/sim/iwarp_wire.h"
#include "tests/sim/world.h"
#include "tests/support/fake_rings.h"
#include "tests/support/fragments.h"
#include "transport/iwarp/qp/copy_keeper.h"
#include "transport/iwarp/qp/endpoint.h"
#include "transport/iwarp/tcp/half_open.h"

namespace urnic::sim {

class IwarpFlow;

// What differs from connection to connection.
struct IwarpChoice {
  tcp::ConnectionConfig tcp;
  mpa::SetupOptions setup;
  rdmap::Config config;
  uint32_t segment_blocks = 64;
  uint32_t ranges = 512;
  uint32_t pieces = 256;
  uint32_t kept_fpdus = 16;    // of the connection, a power of two
  uint32_t engine_fpdus = 64;  // of all connections
};

// A posted receive.
struct IwarpReceive {
  std::vector<urnic_sge> sges;
  uint32_t bytes = 0;
  size_t slot = 0;
};

class IwarpEnd {
 public:
  static constexpr uint32_t kMaxSge = 4;
  static constexpr uint32_t kMaxInline = 64;
  static constexpr uint32_t kSqEntries = 16;
  static constexpr uint32_t kRqEntries = 32;
  static constexpr uint32_t kAnswers = 8;

  struct Hooks {
    std::function<void(const wire::TcpFields&, std::span<const uint8_t>, bool)>
        send;
    std::function<void(iwarp::Event)> on_event;
    // A segment has arrived. False: it is not the endpoint's.
    std::function<bool(const wire::TcpSegment&)> admit;
    // A segment without a connection.
    std::function<void(const wire::TcpSegment&)> refuse;
  };

  // `shared_receives`: its receive queue is an SRQ.
  IwarpEnd(World& world, Random& random, int number, bool shared_receives,
           Hooks hooks);
  IwarpEnd(const IwarpEnd&) = delete;
  IwarpEnd& operator=(const IwarpEnd&) = delete;

  // The queue pair is in INIT, and there is a new endpoint.
  // `requests`: those of our program; `served`: those of the peer's.
  void Begin(const IwarpChoice& choice, IwarpFlow& requests, IwarpFlow& served);
  // After the connection: nothing of it is left.
  void Finish();
  // From now on its inputs are logged. After each connection they are replayed,
  // which must give the same.
  void LogInputs(size_t bytes);
  uint64_t replayed() const { return replayed_; }  // calls

  // Of the connection manager.
  void Connect() {
    Call([this] { DoConnect(); });
  }
  void Open(const tcp::HalfOpenTable::Accepted& accepted);
  void Accept() {
    Call([this] {
      if (endpoint_->Accept(attachment(), {}, world_.now())) FollowLog();
    });
  }
  void Reject() {
    Call([this] { (void)endpoint_->Reject({}, world_.now()); });
  }
  void Disconnect();
  void Abort();
  // The program moves the queue pair to ERR.
  void Fail() {
    Modify(QpState::kErr);
    (void)(tap_ ? tap_->SettleQp(*this) : qp_.Settle({}, *this));
    Disconnect();
  }
  // A router reports that the oldest segment under way was too big.
  void OnTooBig(uint32_t mtu);

  // A frame, whose head is not damaged.
  void Arrive(Link::Packet frame, iwarp_wire::Damage damage, bool marked);
  bool PostSend(const testing::SendWr& wr);
  // With the next number as its ID; false: the ring is full.
  bool PostReceive(const IwarpReceive& receive);
  // Rings the doorbell.
  void Pump();

  int number() const { return number_; }
  uint32_t qpn() const { return 0x11u + static_cast<uint32_t>(number_); }
  IwarpMemory& memory() { return memory_; }
  const IwarpChoice& choice() const { return choice_; }
  const rdmap::Qp& qp() const { return qp_; }
  const iwarp::Endpoint& endpoint() const { return *endpoint_; }
  bool opened() const { return opened_; }
  bool done() const { return !opened_ || endpoint_->done(); }
  // What it receives is not executed any more.
  bool broken() const { return qp_.state() != QpState::kRts; }

  // Receives have the numbers [first_receive, posted_receives).
  uint64_t first_receive() const { return first_receive_; }
  uint64_t posted_receives() const { return posted_receives_; }
  const IwarpReceive& receive(uint64_t number) const {
    return receives_[number - first_receive_];
  }

  // For the queue pair.
  void Place(const Placement& placement) { placements_.push_back(placement); }
  void Complete(const RecvCompletion& done) { done_.push_back(done); }
  void Sent(const SendCompletion& done);
  void Received(const RecvCompletion& done);
  void Flushed(const RecvCompletion& done) { Received(done); }

 private:
  struct Frame {
    Link::Packet bytes;
    iwarp_wire::Damage damage;
    bool marked;
  };
  // What the connections of an engine share.
  struct Pools {
    explicit Pools(const IwarpChoice& choice)
        : segments(choice.segment_blocks),
          ranges(choice.ranges),
          pieces(choice.pieces),
          fpdus(choice.engine_fpdus) {}
    tcp::SegmentSlab segments;
    tcp::RangePool ranges;
    mpa::HeldPieces pieces;
    iwarp::CopyKeeper fpdus;
  };

  iwarp::Attachment attachment() { return {&qp_, choice_.config}; }
  template <typename F>
  void Call(F&& f) {
    if (!endpoint_) return;
    f();
    Settle();
    Pump();
  }
  // Calls f(calls) with what has the calls of the endpoint.
  template <typename F>
  decltype(auto) Calls(F&& f) {
    if (follows_log_) return f(*tap_);
    return f(*endpoint_);
  }
  // The queue pair has been given to the endpoint.
  void FollowLog();
  void Modify(QpState target) {
    if (tap_) return tap_->Modify(target);
    qp_.Modify(target, {});
  }
  void DoConnect();
  void TakeBurst();
  void HandIn(size_t index);
  void HandIn(const Frame& frame, const ReceivedFrame& received);
  void Settle();
  void ExecutePlacements();
  bool Execute(const Placement& placement);
  bool ReadMemory(uint64_t address, std::span<uint8_t> to);
  void Transmit();
  void SetTimer();

  World& world_;
  Random& random_;
  const int number_;
  const Hooks hooks_;
  IwarpMemory memory_;
  testing::FakeRings rings_;
  std::vector<rdmap::SendRecord> records_;
  std::vector<rdmap::Answer> answers_;
  testing::OwnRecvQueue recv_queue_;
  const bool shared_receives_;
  rdmap::Qp qp_;
  tcp::ChallengeBudget challenges_;
  testing::HostFrames frames_;
  std::vector<iwarp::KeptFpdu> kept_;
  IwarpChoice choice_;
  std::optional<Pools> pools_;
  std::optional<iwarp::Endpoint> endpoint_;
  IwarpFlow* requests_ = nullptr;
  IwarpFlow* served_ = nullptr;
  std::shared_ptr<InputLog> inputs_;
  std::unique_ptr<IwarpInputTap> tap_;
  bool follows_log_ = false;  // the endpoint's calls are logged, too
  uint64_t replayed_ = 0;
  bool opened_ = false;
  bool posted_ = false;    // since the last Transmit()
  bool has_work_ = false;  // when it was settled

  std::deque<IwarpReceive> receives_;
  uint64_t first_receive_ = 0;
  uint64_t posted_receives_ = 0;

  std::vector<Frame> arrived_;
  bool burst_due_ = false;
  std::vector<Frame> burst_;
  std::vector<Placement> placements_;
  std::vector<RecvCompletion> done_;
  Time timer_at_ = Time::Infinite();
  uint64_t generation_ = 0;  // of the connection, for its events
};

}  // namespace urnic::sim
