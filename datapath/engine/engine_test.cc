// The engine over the loop port: two queue pairs of one device that are
// connected to each other, and one that is connected to itself; one thread, no
// helper. These tests are about steering, placement, completion, faults and
// teardown; tests/sim has those of the transport.

#include "datapath/engine/engine.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "datapath/engine/helper_thread.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "datapath/nic/nic.h"
#include "datapath/port/port_factory.h"
#include "tests/support/fake_rings.h"
#include "transport/net/mad_handler.h"
#include "transport/wire/mad.h"
#include "transport/work/image.h"

namespace urnic {
namespace {

using testing::FakeRings;
using testing::SendWr;

constexpr uint32_t kAll = mem::kLocalWrite | mem::kRemoteWrite |
                          mem::kRemoteRead | mem::kRemoteAtomic;
constexpr uint32_t kPd = 7;

class NoEvents : public EngineEvents, public QpEvents {
 public:
  void OnCompletionEvent(CompletionQueue& queue) override {
    ++completion_events;
    if (on_completion_event) on_completion_event(queue);
  }
  void OnCqOverflow(CompletionQueue&) override { ++overflows; }
  void OnQpEvent(EngineQp&, QpEvent event) override { last = event; }
  std::function<void(CompletionQueue&)> on_completion_event;
  int completion_events = 0;
  int overflows = 0;
  QpEvent last = QpEvent::kNone;
};

// A completion queue and the program's end of it.
struct Cq {
  explicit Cq(EngineEvents* events, uint32_t entries = 256)
      : ring(entries), queue(ring.data(), &indices, entries, events, nullptr) {}
  bool Poll(urnic_cqe& out) {
    if (indices.consumer == indices.producer) return false;
    out = ring[indices.consumer++ & (ring.size() - 1)];
    return true;
  }
  std::vector<urnic_cqe> ring;
  urnic_queue_indices indices = {};
  CompletionQueue queue;
};

class EngineTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Port> OpenPort() {
    PortConfig config;
    config.dev = "loop";
    auto port = CreatePort(config);
    URNIC_CHECK(port.ok());
    return *std::move(port);
  }

  EngineTest() : send_cq_(&events_), recv_cq_(&events_) {
    InstallMemoryGuard(nullptr, nullptr);
    NicConfig config;
    gid_ = wire::Gid::FromIpv4(0x0a010001);
    config.addresses = {{gid_, 96 + 24}};
    nic_ = std::make_unique<Nic>(OpenPort(), config);
    engine_ = &nic_->engine();
    for (int i = 0; i < 3; ++i) qp_[i] = Create(rings_[i]);
    Connect(0, 1);
    Connect(1, 0);
    Connect(2, 2);
    {
      Engine::ControlScope scope(*engine_);
      key_ = nic_->network().mrs().Register(kPd, Address(memory_.data()),
                                            Address(memory_.data()),
                                            memory_.size(), kAll);
    }
  }
  ~EngineTest() override {
    Engine::ControlScope scope(*engine_);
    for (EngineQp* qp : qp_) engine_->qps().Destroy(qp);
  }

  static uint64_t Address(const void* p) {
    return reinterpret_cast<uint64_t>(p);
  }

  RoceQp* Create(FakeRings& rings) { return Create(rings, recv_cq_); }
  EngineQpConfig ConfigOf(FakeRings& rings, Cq& recv_cq) {
    EngineQpConfig config;
    config.limits = {
        .pd = kPd, .max_sge_send = 4, .max_sge_recv = 4, .max_inline = 64};
    config.sq = rings.sq().view();
    config.rq = rings.rq().view();
    config.send_cq = &send_cq_.queue;
    config.recv_cq = &recv_cq.queue;
    config.events = &events_;
    return config;
  }
  RoceQp* Create(FakeRings& rings, Cq& recv_cq) {
    Engine::ControlScope scope(*engine_);
    return &RoceQp::Of(**engine_->qps().Create(ConfigOf(rings, recv_cq)));
  }

  void Connect(int from, int to) {
    auto path = nic_->ResolvePath(
        {.local = gid_, .remote = gid_, .udp_src_port = 50000},
        Duration::Milliseconds(1));
    ASSERT_TRUE(path.ok()) << path.status();
    QpConfig config;
    config.dest_qpn = qp_[to]->qpn();
    config.access = kAll;
    config.timeout = Duration::Milliseconds(5);
    config.max_rd_atomic = config.max_dest_rd_atomic = 4;
    Engine::ControlScope scope(*engine_);
    qp_[from]->path = RocePath(*path);
    for (auto state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      engine_->qps().Modify(*qp_[from], state, config);
    }
  }

  // Extracts queue pair `i`, and sets `config` for its insertion.
  std::string Extract(int i, EngineQpConfig& config) {
    config.limits.qpn = qp_[i]->qpn();
    Engine::ControlScope scope(*engine_);
    path_ = qp_[i]->path;
    return engine_->qps().Extract(qp_[i]);
  }
  absl::Status Insert(int i, const EngineQpConfig& config,
                      const std::string& image) {
    Engine::ControlScope scope(*engine_);
    auto qp = engine_->qps().Insert(
        config, path_,
        {reinterpret_cast<const uint8_t*>(image.data()), image.size()});
    if (qp.ok()) qp_[i] = *qp;
    return qp.status();
  }
  void Move(int i) {
    EngineQpConfig config = ConfigOf(rings_[i], recv_cq_);
    const std::string image = Extract(i, config);
    const absl::Status status = Insert(i, config, image);
    ASSERT_TRUE(status.ok()) << status;
  }

  // Queue pair 0 sends a question and 1 an answer, so that the answer arrives
  // in one burst with the acknowledgement of the question.
  void AskAndAnswer() {
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(rings_[i].PostRecv({.wr_id = 9, .sges = {Sge(5000, 64)}}));
    }
    ASSERT_TRUE(rings_[0].PostSend(Wr(URNIC_WR_SEND, 0, 0, 8)));
    engine_->Doorbell(*qp_[0]);
    while (rings_[1].rq().indices().consumer != 1) engine_->Progress();
    ASSERT_TRUE(rings_[1].PostSend(Wr(URNIC_WR_SEND, 0, 0, 8)));
    engine_->Doorbell(*qp_[1]);
    while (rings_[0].rq().indices().consumer != 1) engine_->Progress();
  }

  urnic_cqe Await(Cq& cq) {
    urnic_cqe cqe = {};
    for (int i = 0; i < 1000; ++i) {
      if (cq.Poll(cqe)) return cqe;
      engine_->Progress();
    }
    ADD_FAILURE() << "no completion";
    return cqe;
  }

  urnic_sge Sge(size_t offset, uint32_t bytes) {
    return {Address(memory_.data()) + offset, bytes, key_};
  }
  SendWr Wr(uint8_t opcode, size_t from, size_t to, uint32_t bytes) {
    SendWr wr;
    wr.opcode = opcode;
    wr.wr_id = 42;
    wr.sges = {Sge(from, bytes)};
    wr.remote_addr = Address(memory_.data()) + to;
    wr.rkey = key_;
    return wr;
  }

  NoEvents events_;
  wire::Gid gid_;
  Cq send_cq_;
  Cq recv_cq_;
  std::unique_ptr<Nic> nic_;
  Engine* engine_ = nullptr;
  FakeRings rings_[3] = {
      {128, 4, 64, 64, 4}, {64, 4, 64, 64, 4}, {4, 4, 64, 4, 4}};
  RoceQp* qp_[3];
  net::Path path_;  // of the queue pair that was extracted last
  alignas(64) std::vector<uint8_t> memory_ = std::vector<uint8_t>(1 << 20);
  uint32_t key_ = 0;
};

TEST_F(EngineTest, WritesReadsAndAtomicsMoveBytes) {
  for (size_t i = 0; i < 100000; ++i) memory_[i] = static_cast<uint8_t>(i * 7);
  ASSERT_TRUE(rings_[0].PostSend(Wr(URNIC_WR_RDMA_WRITE, 0, 200000, 100000)));
  engine_->Doorbell(*qp_[0]);
  EXPECT_EQ(Await(send_cq_).status, URNIC_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(&memory_[0], &memory_[200000], 100000), 0);

  ASSERT_TRUE(rings_[1].PostSend(Wr(URNIC_WR_RDMA_READ, 400000, 0, 100000)));
  engine_->Doorbell(*qp_[1]);
  const urnic_cqe read = Await(send_cq_);
  EXPECT_EQ(read.status, URNIC_WC_SUCCESS);
  EXPECT_EQ(read.opcode, URNIC_WC_RDMA_READ);
  EXPECT_EQ(std::memcmp(&memory_[0], &memory_[400000], 100000), 0);

  uint64_t value = 40;
  std::memcpy(&memory_[600000], &value, 8);
  SendWr add = Wr(URNIC_WR_ATOMIC_FETCH_AND_ADD, 600064, 600000, 8);
  add.compare_add = 2;
  ASSERT_TRUE(rings_[0].PostSend(add));
  engine_->Doorbell(*qp_[0]);
  EXPECT_EQ(Await(send_cq_).opcode, URNIC_WC_FETCH_ADD);
  std::memcpy(&value, &memory_[600000], 8);
  EXPECT_EQ(value, 42u);
  std::memcpy(&value, &memory_[600064], 8);
  EXPECT_EQ(value, 40u);
}

TEST_F(EngineTest, QueuePairStateIsReadInParts) {
  std::vector<uint32_t> qpns;
  std::optional<uint32_t> place = 0;
  while (place.has_value()) {
    std::string image;
    {
      Engine::ControlScope scope(*engine_);
      place = engine_->qps().AppendImages(*place, /*enough=*/1, image);
    }
    if (image.empty()) continue;  // past the last
    ImageShape shape;
    const ImageRefusal refusal = ReadImageShape(
        {reinterpret_cast<const uint8_t*>(image.data()), image.size()}, shape);
    ASSERT_TRUE(refusal.ok()) << refusal.Text();
    qpns.push_back(shape.limits.qpn);
  }
  EXPECT_EQ(qpns, (std::vector<uint32_t>{qp_[0]->qpn(), qp_[1]->qpn(),
                                         qp_[2]->qpn()}));
}

TEST_F(EngineTest, AQueuePairContinuesWhereItsImageIsInserted) {
  constexpr uint32_t kMessage = 300000;  // more than a window
  for (size_t i = 0; i < kMessage; ++i) memory_[i] = static_cast<uint8_t>(i);
  ASSERT_TRUE(rings_[0].PostSend(Wr(URNIC_WR_RDMA_WRITE, 0, 400000, kMessage)));
  engine_->Doorbell(*qp_[0]);
  for (int i = 0; i < 2; ++i) Move(i);
  EXPECT_EQ(Await(send_cq_).status, URNIC_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(&memory_[0], &memory_[400000], kMessage), 0);

  // A request that is posted between extraction and insertion.
  EngineQpConfig config = ConfigOf(rings_[0], recv_cq_);
  const std::string image = Extract(0, config);
  ASSERT_TRUE(rings_[0].PostSend(Wr(URNIC_WR_RDMA_READ, 0, 400000, 8)));
  ASSERT_TRUE(Insert(0, config, image).ok());
  EXPECT_EQ(Await(send_cq_).opcode, URNIC_WC_RDMA_READ);
}

TEST_F(EngineTest, AQuietEngineMovesNothingUntilItGoesOn) {
  const auto set_quiet = [&](bool quiet) {
    Engine::ControlScope scope(*engine_);
    engine_->SetQuiet(quiet);
  };
  memory_[0] = 17;
  set_quiet(true);
  ASSERT_TRUE(rings_[0].PostSend(Wr(URNIC_WR_RDMA_WRITE, 0, 2000, 8)));
  engine_->Doorbell(*qp_[0]);
  {
    // A doorbell that finds the token taken marks its work. The thread that
    // releases the token must not wait until the work is done, because the
    // engine is quiet.
    Engine::ControlScope scope(*engine_);
    engine_->Doorbell(*qp_[1]);
  }
  for (int i = 0; i != 100; ++i) engine_->Progress();
  EXPECT_EQ(memory_[2000], 0);
  urnic_cqe cqe;
  EXPECT_FALSE(send_cq_.Poll(cqe));
  set_quiet(false);
  EXPECT_EQ(Await(send_cq_).status, URNIC_WC_SUCCESS);
  EXPECT_EQ(memory_[2000], 17);
}

TEST_F(EngineTest, AQueuePairInErrorStaysThereWhenItMoves) {
  {
    Engine::ControlScope scope(*engine_);
    engine_->qps().Modify(*qp_[0], QpState::kErr, qp_[0]->config());
  }
  events_.last = QpEvent::kNone;
  Move(0);
  EXPECT_EQ(qp_[0]->state(), QpState::kErr);
  EXPECT_EQ(events_.last, QpEvent::kNone);
  ASSERT_TRUE(qp_[0]->wants_recv_doorbell());
  ASSERT_TRUE(rings_[0].PostRecv({.wr_id = 9, .sges = {Sge(5000, 64)}}));
  engine_->Doorbell(*qp_[0]);
  EXPECT_EQ(Await(recv_cq_).status, URNIC_WC_WR_FLUSH_ERR);
}

TEST_F(EngineTest, AnImageIsRefusedWithItsReason) {
  EngineQpConfig config = ConfigOf(rings_[0], recv_cq_);
  const std::string image = Extract(0, config);
  std::string damaged = image;
  damaged[image.size() / 2] ^= 1;
  const uint32_t before = nic_->network().qps().size();
  EXPECT_TRUE(absl::IsInvalidArgument(Insert(0, config, damaged)));
  EngineQpConfig other = config;
  other.limits.pd = kPd + 1;
  const absl::Status refused = Insert(0, other, image);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_NE(refused.message().find("belongs to another domain"),
            std::string::npos)
      << refused;
  EXPECT_EQ(nic_->network().qps().size(), before);
  ASSERT_TRUE(Insert(0, config, image).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Insert(0, config, image)));
}

TEST_F(EngineTest, ASendFillsItsReceive) {
  ASSERT_TRUE(rings_[1].PostRecv({.wr_id = 9, .sges = {Sge(5000, 4000)}}));
  std::memset(memory_.data(), 0x5a, 3000);
  SendWr send = Wr(URNIC_WR_SEND_WITH_IMM, 0, 0, 3000);
  send.imm_or_key = 0x01020304;
  ASSERT_TRUE(rings_[0].PostSend(send));
  engine_->Doorbell(*qp_[0]);
  const urnic_cqe got = Await(recv_cq_);
  EXPECT_EQ(got.wr_id, 9u);
  EXPECT_EQ(got.byte_len, 3000u);
  EXPECT_EQ(got.imm_or_key, 0x01020304u);
  EXPECT_EQ(std::memcmp(&memory_[0], &memory_[5000], 3000), 0);
  EXPECT_EQ(Await(send_cq_).status, URNIC_WC_SUCCESS);
}

TEST_F(EngineTest, InOneQueueAnAnswerComesAfterItsQuestion) {
  {
    Engine::ControlScope scope(*engine_);
    engine_->qps().Destroy(qp_[0]);
  }
  qp_[0] = Create(rings_[0], send_cq_);
  Connect(0, 1);
  Connect(1, 0);
  AskAndAnswer();
  EXPECT_EQ(Await(send_cq_).opcode, URNIC_WC_SEND);
  EXPECT_EQ(Await(send_cq_).opcode, URNIC_WC_RECV);
}

TEST_F(EngineTest, OfTwoQueuesTheOneOfTheQuestionIsWrittenFirst) {
  std::vector<bool> answers;
  events_.on_completion_event = [&](CompletionQueue& queue) {
    answers.push_back(&queue == &recv_cq_.queue);
    queue.ArmFor(CompletionQueue::kArmedAny);
  };
  send_cq_.queue.ArmFor(CompletionQueue::kArmedAny);
  recv_cq_.queue.ArmFor(CompletionQueue::kArmedAny);
  AskAndAnswer();
  // The first event is the receive of the question, in the answer's queue.
  EXPECT_EQ(answers, (std::vector{true, false, true}));
}

TEST_F(EngineTest, UnmappedTargetMemoryFailsTheQueuePair) {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint32_t key = 0;
  {
    Engine::ControlScope scope(*engine_);
    key = nic_->network().mrs().Register(kPd, Address(page), Address(page),
                                         4096, kAll);
  }
  munmap(page, 4096);
  SendWr write = Wr(URNIC_WR_RDMA_WRITE, 0, 0, 64);
  write.remote_addr = Address(page);
  write.rkey = key;
  ASSERT_TRUE(rings_[0].PostSend(write));
  engine_->Doorbell(*qp_[0]);
  EXPECT_EQ(Await(send_cq_).status, URNIC_WC_REM_OP_ERR);
  EXPECT_EQ(qp_[0]->state(), QpState::kErr);
  EXPECT_EQ(qp_[1]->state(), QpState::kErr);
  EXPECT_EQ(engine_->counters().placement_faults, 1u);
}

TEST_F(EngineTest, UnmappedSourceMemoryIsALocalProtectionError) {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint32_t key = 0;
  {
    Engine::ControlScope scope(*engine_);
    key = nic_->network().mrs().Register(kPd, Address(page), Address(page),
                                         4096, kAll);
  }
  munmap(page, 4096);
  SendWr write = Wr(URNIC_WR_RDMA_WRITE, 0, 4096, 64);
  write.sges = {{Address(page), 64, key}};
  ASSERT_TRUE(rings_[0].PostSend(write));
  engine_->Doorbell(*qp_[0]);
  EXPECT_EQ(Await(send_cq_).status, URNIC_WC_LOC_PROT_ERR);
}

// The queue of packets to ourselves holds 128. A queue pair that finds it full
// must be resumed, although no packet of its own will wake it.
TEST_F(EngineTest, AFullLoopbackQueueDelaysOthersButLosesNothing) {
  uint32_t posted = 1;
  while (rings_[0].PostSend(Wr(URNIC_WR_RDMA_WRITE, 0, 4096, 8))) ++posted;
  ASSERT_GE(posted, 128u);
  // Each doorbell sends a burst, and nothing receives.
  for (int i = 0; i < 8; ++i) engine_->Doorbell(*qp_[0]);
  ASSERT_TRUE(rings_[2].PostSend(Wr(URNIC_WR_RDMA_WRITE, 0, 8192, 8)));
  engine_->Doorbell(*qp_[2]);
  for (uint32_t i = 0; i < posted; ++i) {
    ASSERT_EQ(Await(send_cq_).status, URNIC_WC_SUCCESS) << i;
  }
}

// As when a program disconnects after the last message: the peer must not think
// that the message was lost.
TEST_F(EngineTest, OwedResponsesAreSentBeforeAQueuePairGoesToError) {
  ASSERT_TRUE(rings_[1].PostRecv({.wr_id = 9, .sges = {Sge(5000, 64)}}));
  ASSERT_TRUE(rings_[0].PostSend(Wr(URNIC_WR_SEND, 0, 0, 64)));
  engine_->Doorbell(*qp_[0]);
  EXPECT_EQ(Await(recv_cq_).wr_id, 9u);
  {
    Engine::ControlScope scope(*engine_);
    engine_->qps().Modify(*qp_[1], QpState::kErr, qp_[1]->config());
  }
  EXPECT_EQ(Await(send_cq_).status, URNIC_WC_SUCCESS);
}

// The connection manager holds numbers in TIMEWAIT.
//= IBTA 12.9.8.4
TEST_F(EngineTest, ANumberThatIsStillInUseIsNotReused) {
  class Holder : public net::MadHandler {
   public:
    RxVerdict OnMad(std::span<const uint8_t>, const net::PathQuery&,
                    Time) override {
      return RxVerdict::kAccept;
    }
    Time NextDeadline() const override { return Time::Infinite(); }
    void OnTimer(Time) override {}
    bool IsQpnBusy(Qpn qpn) const override {
      // All but every fourth.
      return qpn.value % 4 != 0;
    }
  } holder;
  {
    Engine::ControlScope scope(*engine_);
    nic_->network().gsi().Serve(wire::kMadClassCm, &holder);
  }
  std::vector<EngineQp*> qps;
  for (int i = 0; i < 8; ++i) {
    qps.push_back(Create(rings_[2]));
    EXPECT_EQ(qps.back()->qpn() % 4, 0u);
  }
  Engine::ControlScope scope(*engine_);
  nic_->network().gsi().Serve(wire::kMadClassCm, nullptr);
  for (EngineQp* qp : qps) engine_->qps().Destroy(qp);
}

TEST_F(EngineTest, AQueuePairOfIwarpIsNotBuiltYet) {
  EngineQpConfig config = ConfigOf(rings_[2], recv_cq_);
  config.service = QpService::kIwarp;
  Engine::ControlScope scope(*engine_);
  EXPECT_EQ(engine_->qps().Create(config).status().code(),
            absl::StatusCode::kUnimplemented);
}

// The numbers of this address are leased.
TEST_F(EngineTest, NumbersAreDrawnFromTheLeaseUntilItIsUsedUp) {
  const NumberRange qpns = {NumberOf(6, 64), 4};
  const NumberRange keys = {NumberOf(6, 128), 4};
  const NumberRange srqns = {NumberOf(6, 256), 4};
  LocalLessor lessor;
  lessor.Offer(NumberSpace::kQpn, qpns);
  lessor.Offer(NumberSpace::kKey, keys);
  lessor.Offer(NumberSpace::kSrqn, srqns);
  NicConfig config;
  config.addresses = {{gid_, 96 + 24}};
  config.lessor = &lessor;
  {
    Nic nic(OpenPort(), config);
    Engine::ControlScope scope(nic.engine());
    std::vector<EngineQp*> qps;
    std::vector<SharedReceiveQueue*> srqs;
    for (int i = 0; i < 4; ++i) {
      const auto qp = nic.engine().qps().Create(ConfigOf(rings_[2], recv_cq_));
      ASSERT_TRUE(qp.ok()) << qp.status();
      EXPECT_TRUE(qpns.Has((*qp)->qpn()));
      qps.push_back(*qp);
      const uint32_t key = nic.network().mrs().Register(kPd, 0, 0, 8, kAll);
      EXPECT_TRUE(keys.Has(key >> kVariantBits));
      srqs.push_back(nic.network().CreateSrq({}));
      ASSERT_NE(srqs.back(), nullptr);
      EXPECT_TRUE(srqns.Has(srqs.back()->number));
    }
    EXPECT_EQ(nic.engine()
                  .qps()
                  .Create(ConfigOf(rings_[2], recv_cq_))
                  .status()
                  .code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(nic.network().mrs().Register(kPd, 0, 0, 8, kAll), 0u);
    EXPECT_EQ(nic.network().CreateSrq({}), nullptr);
    // No packet has these numbers.
    EXPECT_TRUE(nic.network()
                    .iwarp_qps()
                    .Draw([](uint32_t) { return false; })
                    .has_value());
    for (EngineQp* qp : qps) nic.engine().qps().Destroy(qp);
    for (SharedReceiveQueue* srq : srqs) nic.network().DestroySrq(srq);
  }
  EXPECT_EQ(lessor.Lease(NumberSpace::kQpn), qpns);
  EXPECT_EQ(lessor.Lease(NumberSpace::kKey), keys);
  EXPECT_EQ(lessor.Lease(NumberSpace::kSrqn), srqns);
}

TEST_F(EngineTest, ForeignKeyIsARemoteAccessErrorAndFlushes) {
  SendWr bad = Wr(URNIC_WR_RDMA_WRITE, 0, 4096, 64);
  bad.rkey ^= 0x100;
  ASSERT_TRUE(rings_[0].PostSend(bad));
  ASSERT_TRUE(rings_[0].PostSend(Wr(URNIC_WR_RDMA_WRITE, 0, 4096, 64)));
  engine_->Doorbell(*qp_[0]);
  EXPECT_EQ(Await(send_cq_).status, URNIC_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Await(send_cq_).status, URNIC_WC_WR_FLUSH_ERR);
}

TEST_F(EngineTest, AnArmedQueueRaisesOneEvent) {
  send_cq_.queue.ArmFor(CompletionQueue::kArmedAny);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(rings_[0].PostSend(Wr(URNIC_WR_RDMA_WRITE, 0, 4096, 8)));
  }
  engine_->Doorbell(*qp_[0]);
  Await(send_cq_);
  Await(send_cq_);
  EXPECT_EQ(events_.completion_events, 1);
}

// A program posts and then only watches its memory: the helper thread must send
// all bursts of a long message.
TEST_F(EngineTest, TheHelperFinishesWithoutPolling) {
  ASSERT_TRUE(HelperThread::Start(*engine_).ok());
  for (int round = 0; round < 3; ++round) {
    std::memset(memory_.data(), round + 1, 300000);
    ASSERT_TRUE(rings_[0].PostSend(Wr(URNIC_WR_RDMA_WRITE, 0, 400000, 300000)));
    engine_->Doorbell(*qp_[0]);
    urnic_cqe cqe = {};
    std::atomic_ref producer(send_cq_.indices.producer);
    while (producer.load() == send_cq_.indices.consumer) {
      std::this_thread::yield();
    }
    ASSERT_TRUE(send_cq_.Poll(cqe));
    EXPECT_EQ(cqe.status, URNIC_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(&memory_[0], &memory_[400000], 300000), 0);
  }
}

// A program that polls continuously sends the helper back to watching, and a
// hand-over activates it immediately.
TEST_F(EngineTest, PollingAndHandingOverAlternate) {
  ASSERT_TRUE(HelperThread::Start(*engine_).ok());
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(rings_[0].PostSend(Wr(URNIC_WR_RDMA_WRITE, 0, 400000, 50000)));
    engine_->Doorbell(*qp_[0]);
    if (round % 2 == 0) {
      for (int i = 0; i < 2000; ++i) engine_->Progress();
    } else {
      engine_->HandOver();
    }
    std::atomic_ref producer(send_cq_.indices.producer);
    while (producer.load() == send_cq_.indices.consumer) {
      std::this_thread::yield();
    }
    urnic_cqe cqe = {};
    ASSERT_TRUE(send_cq_.Poll(cqe));
    EXPECT_EQ(cqe.status, URNIC_WC_SUCCESS);
  }
}

}  // namespace
}  // namespace urnic
