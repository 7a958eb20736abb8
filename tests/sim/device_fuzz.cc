// An engine with iWARP that faces a peer who may send anything, while its own
// programs do what they like. The input is a script: open, send segments with
// right and wrong numbers, FPDUs and garbage; accept, reject, destroy, and so
// on. Memory that no key opens must not change, owners are told the truth in
// the right order, and at the end nothing may be left.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "tests/fuzz/hostile.h"
#include "tests/fuzz/input.h"
#include "tests/sim/buffers.h"
#include "tests/sim/engine_host.h"
#include "tests/sim/hand_peer.h"
#include "tests/sim/peer_script.h"
#include "tests/support/fake_rings.h"
#include "tests/support/host_wire.h"
#include "transport/base/check.h"

namespace urnic::sim {
namespace {

using testing::Input;

constexpr uint16_t kProgramPort = 5000;  // of the first program
constexpr uint8_t kGuard = 0xee;
constexpr size_t kMemoryBytes = 1 << 16;
// What the keys open.
constexpr size_t kOpen = 4096;
constexpr size_t kOpenBytes = 1 << 15;
constexpr uint64_t kIova = 0x40000000;
constexpr uint32_t kRights = mem::kLocalWrite | mem::kRemoteWrite |
                             mem::kRemoteRead | mem::kRemoteAtomic;
constexpr Duration kStep = Duration::Microseconds(30);
// Whatever is left is given up by then.
constexpr Duration kLastPatience = Duration::Seconds(600);
constexpr ConnectionLimits kLimits = {.max_connections = 16,
                                      .half_open = 4,
                                      .time_wait = 4,
                                      .segment_blocks = 16,
                                      .ranges = 16,
                                      .early_fpdus = 16,
                                      .held_pieces = 16,
                                      .kept_fpdus = 8,
                                      .kept_per_connection = 4,
                                      .window_bytes = 1 << 15};

class Fuzzer final : ConnectionEvents, EngineEvents {
 public:
  Fuzzer(Buffers& buffers, Input in)
      : buffers_(buffers),
        in_(in),
        how_(in_.Byte()),
        memory_(kMemoryBytes, kGuard),
        cq_(cq_ring_.data(), &cq_indices_, kCqEntries, this, nullptr),
        host_(
            world_, HostConfig(), in_.Byte(),
            [this](Frame frame) { OnFrame(std::move(frame)); },
            [](EngineHost&, const cm::Event&) {}),
        peer_(testing::SelfOf(testing::MacOf(2), testing::GidOf(2, ipv6())),
              testing::SelfOf(testing::MacOf(1), host_.gid()),
              [this](Frame frame) { Deliver(std::move(frame)); }),
        script_(in_, peer_, kIova) {
    host_.WithToken([&] {
      SetKey();
      Listen();
    });
    Deliver(testing::AskFrame(peer_.self(), host_.gid()));
    Run(kStep);
  }

  void Play() {
    for (int step = 0; step < 300 && !in_.empty(); ++step) {
      const uint8_t op = in_.Byte();
      Do(op & 0x7f);
      if ((op & 0x80) == 0) Run(kStep);
      if (wait_ > Duration()) Run(std::exchange(wait_, {}));
    }
    End();
  }

 private:
  static constexpr uint32_t kCqEntries = 1024;
  static constexpr uint32_t kPrograms = 3;

  struct Program {
    testing::FakeRings rings{16, 2, 64, 16, 2};
    IwarpQp* qp = nullptr;
  };
  // A connection that somebody here has been given.
  struct Owned {
    IwarpConnection* connection = nullptr;
    bool ours = false;  // by Connect()
    bool answered = false;
    bool connected = false;
    bool ended = false;
  };

  bool ipv6() const { return (how_ & 1) != 0; }

  EngineHostConfig HostConfig() {
    EngineHostConfig config;
    config.ipv6 = ipv6();
    config.iwarp = true;
    config.connections = kLimits;
    config.busy_one_in = 1u << 20;
    config.port.frames.mac = testing::MacOf(1);
    config.port.frames.pool = buffers_.pool();
    config.port.frames.lcore = buffers_.lcore();
    config.port.tx_ring = (how_ & 2) != 0 ? 4 : 256;
    return config;
  }

  ConnectionTable& table() { return host_.engine().connections(); }
  QpTable& qps() { return host_.engine().qps(); }
  void Run(Duration time) {
    (void)world_.RunUntil(world_.now() + time);
    cq_indices_.consumer = cq_indices_.producer;
  }

  // --- The wire --------------------------------------------------------------

  void OnFrame(Frame frame) { peer_.OnFrame(frame); }
  void Deliver(Frame frame) { host_.port().OnFrame(std::move(frame)); }

  // --- The owner of connections ----------------------------------------------

  Owned* Find(const IwarpConnection* connection) {
    const auto at = std::ranges::find(owned_, connection, &Owned::connection);
    return at == owned_.end() ? nullptr : &*at;
  }
  Owned* Pick() {
    return owned_.empty()
               ? nullptr
               : &owned_[in_.Below(static_cast<uint32_t>(owned_.size()))];
  }

  void OnConnectionEvent(IwarpConnection& connection,
                         iwarp::Event event) override {
    Owned* owned = Find(&connection);
    if (event == iwarp::Event::kRequest) {
      URNIC_CHECK(owned == nullptr);
      connection.set_owner(this, 0);
      owned_.push_back({.connection = &connection});
      return;
    }
    URNIC_CHECK(owned != nullptr && !owned->ended);
    if (event == iwarp::Event::kConnected) {
      URNIC_CHECK(!owned->connected && (owned->ours || owned->answered));
      owned->connected = true;
      return;
    }
    URNIC_CHECK(event != iwarp::Event::kDisconnected || owned->connected);
    owned->ended = true;
  }
  void OnCompletionEvent(CompletionQueue&) override {}
  void OnCqOverflow(CompletionQueue&) override {}

  void Forget(Owned& owned) {
    table().Forget(owned.connection);
    owned_.erase(owned_.begin() + (&owned - owned_.data()));
  }

  void Listen() {
    ListenerConfig config;
    config.port = HandPeer::kHostPort;
    config.backlog = 3;
    config.setup.max_ird = 4;
    config.setup.markers = (how_ & 4) != 0;
    config.setup.revision = (how_ & 8) != 0 ? 1 : 2;
    config.events = this;
    const auto listener = table().Listen(config);
    URNIC_CHECK(listener.ok());
    listener_ = *listener;
  }

  void SetKey() {
    if (key_ != 0) {
      URNIC_CHECK(
          host_.network().mrs().Deregister(MrKey{std::exchange(key_, 0)}));
      return;
    }
    key_ = host_.network().mrs().Register(
        EngineHost::kPd, reinterpret_cast<uint64_t>(&memory_[kOpen]), kIova,
        kOpenBytes, kRights);
  }

  // --- The script ------------------------------------------------------------

  void Do(uint8_t op) {
    if (op < 64) return script_.Speak(op % 16, key_);
    Engine::ControlScope scope(host_.engine());
    Act(op % 32);
  }

  // What the programs and the operator of the host do.
  void Act(uint8_t op) {
    Program& program = programs_[in_.Below(kPrograms)];
    Owned* const owned = Pick();
    switch (op) {
      case 0:
      case 1:
      case 2:
        return Connect(program);
      case 3:
      case 4:
      case 5:
      case 6:
        return Accept(program);
      case 7:
        if (owned != nullptr) {
          garbage_.assign(in_.Byte(), 1);
          (void)table().Reject(*owned->connection, garbage_);
        }
        return;
      case 8:
        if (owned != nullptr) Forget(*owned);
        return;
      case 9:
        if (owned != nullptr) table().Disconnect(*owned->connection);
        return;
      case 10:
        return Destroy(program);
      case 11:
        if (program.qp != nullptr) Modify(program, QpState::kErr);
        return;
      case 12:
        if (program.qp != nullptr) Modify(program, QpState::kReset);
        return;
      case 13:
        if (program.qp != nullptr &&
            program.qp->core_state() == QpState::kReset) {
          Modify(program, QpState::kInit);
        }
        return;
      case 14:
        if (listener_ == nullptr) return Listen();
        return table().Unlisten(std::exchange(listener_, nullptr));
      case 15:
        return host_.SetAddress(has_address_ = !has_address_);
      case 16:
        return SetKey();
      case 17:
        return testing::Scribble(in_, program.rings);
      case 18:
      case 19:
        // Time passes: up to half an hour, rarely.
        wait_ = Duration::Nanoseconds(int64_t{1} << in_.Byte() % 41);
        return;
      case 20:
      case 21:
      case 22:
      case 23:
        (void)program.rings.PostRecv({.sges = {Sge()}});
        if (program.qp != nullptr && program.qp->wants_recv_doorbell()) {
          host_.engine().Doorbell(*program.qp);
        }
        return;
      default:
        return Post(program);
    }
  }

  urnic_sge Sge() { return {kIova + in_.Byte() * 130u, in_.Byte() * 6u, key_}; }

  void Make(Program& program) {
    if (program.qp != nullptr) return;
    program.rings = testing::FakeRings{16, 2, 64, 16, 2};
    EngineQpConfig config;
    config.service = QpService::kIwarp;
    config.limits = {.pd = EngineHost::kPd,
                     .max_sge_send = 2,
                     .max_sge_recv = 2,
                     .max_inline = 64};
    config.sq = program.rings.sq().view();
    config.rq = program.rings.rq().view();
    config.send_cq = config.recv_cq = &cq_;
    auto qp = qps().Create(config);
    URNIC_CHECK(qp.ok());
    program.qp = &IwarpQp::Of(**qp);
    Modify(program, QpState::kInit);
  }
  void Destroy(Program& program) {
    if (program.qp == nullptr) return;
    qps().Destroy(std::exchange(program.qp, nullptr));
  }
  void Modify(Program& program, QpState target) {
    QpConfig config;
    config.access = kRights;
    qps().Modify(*program.qp, target, config);
  }

  void Connect(Program& program) {
    Make(program);
    const HandPeer::Stream& stream = peer_.stream(in_.Byte());
    ConnectConfig config;
    if (host_.network().FindPath(
            {.local = host_.gid(), .remote = peer_.self().gid},
            host_.engine().Now(), config.path) != net::PathStatus::kFound) {
      return;
    }
    const uint8_t how = in_.Byte();
    config.local_port =
        static_cast<uint16_t>(kProgramPort + (&program - programs_.data()));
    config.remote_port = stream.port;
    config.setup.revision = (how & 1) != 0 ? 1 : 2;
    config.setup.markers = (how & 2) != 0;
    config.setup.crc = (how & 4) == 0;
    config.setup.peer_to_peer = (how & 8) != 0;
    config.setup.max_ird = 4;
    config.ird = config.ord = 4;
    config.events = this;
    garbage_.assign(in_.Byte(), 2);
    const auto connection = table().Connect(*program.qp, config, garbage_);
    if (connection.ok()) {
      owned_.push_back({.connection = *connection, .ours = true});
    }
  }

  void Accept(Program& program) {
    for (Owned& owned : owned_) {
      if (owned.ours || owned.answered) continue;
      Make(program);
      garbage_.assign(in_.Byte(), 3);
      owned.answered =
          table().Accept(*owned.connection, *program.qp, 4, 4, garbage_).ok();
      return;
    }
  }

  void Post(Program& program) {
    testing::SendWr wr;
    wr.opcode = in_.Byte() % 16;
    wr.flags = in_.Byte();
    wr.sges = {Sge()};
    wr.remote_addr = kIova + in_.Byte();
    wr.rkey = key_;
    wr.imm_or_key = in_.Byte();
    if (!program.rings.PostSend(wr) || program.qp == nullptr) return;
    host_.engine().Doorbell(*program.qp);
  }

  // --- The end ---------------------------------------------------------------

  void End() {
    host_.WithToken([&] {
      if (!has_address_) host_.SetAddress(true);
      for (Program& program : programs_) Destroy(program);
      while (!owned_.empty()) Forget(owned_.back());
      if (listener_ != nullptr) {
        table().Unlisten(std::exchange(listener_, nullptr));
      }
    });
    Run(kLastPatience);
    URNIC_CHECK(owned_.empty());
    URNIC_CHECK(table().size() == 0 && table().half_open() == 0 &&
                table().time_wait() == 0);
    const ConnectionPools& pools = table().pools();
    URNIC_CHECK(pools.free_blocks() == kLimits.segment_blocks &&
                pools.free_ranges() == kLimits.ranges &&
                pools.free_pieces() == kLimits.held_pieces &&
                pools.free_early() == kLimits.early_fpdus &&
                pools.free_fpdus() == kLimits.kept_fpdus);
    for (size_t i = 0; i < memory_.size(); ++i) {
      const bool open = i >= kOpen && i < kOpen + kOpenBytes;
      URNIC_CHECK(open || memory_[i] == kGuard);
    }
  }

  Buffers& buffers_;
  Input in_;
  const uint8_t how_;
  World world_;
  std::vector<uint8_t> memory_;
  std::array<urnic_cqe, kCqEntries> cq_ring_ = {};
  urnic_queue_indices cq_indices_ = {};
  CompletionQueue cq_;
  EngineHost host_;
  HandPeer peer_;
  PeerScript script_;
  std::vector<uint8_t> garbage_;
  uint32_t key_ = 0;
  IwarpListener* listener_ = nullptr;
  bool has_address_ = true;
  std::array<Program, kPrograms> programs_;
  std::vector<Owned> owned_;
  Duration wait_;
};

}  // namespace
}  // namespace urnic::sim

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using urnic::sim::Buffers;
  // DPDK starts once in a process, and never ends.
  static Buffers* const buffers = new Buffers;
  const urnic::testing::Input input(data, size);
  std::make_unique<urnic::sim::Fuzzer>(*buffers, input)->Play();
  URNIC_CHECK(buffers->AllThere());
  return 0;
}
