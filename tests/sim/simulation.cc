#include "tests/sim/simulation.h"

#include <algorithm>

#include "transport/rc/replay.h"
#include "transport/work/timers.h"

namespace urnic::sim {
namespace {

constexpr uint32_t kAllRights = mem::kLocalWrite | mem::kRemoteWrite |
                                mem::kRemoteRead | mem::kRemoteAtomic;
constexpr size_t kAtomicArea = 4096;
constexpr Duration kPatience = Duration::Seconds(120);

}  // namespace

struct Simulation::Connection {
  testing::EndpointOptions options[2];
  QpConfig config[2];
  FlowConfig flow_config[2];
  std::unique_ptr<Endpoint> ends[2];
  std::unique_ptr<Node> nodes[2];
  std::unique_ptr<Link> links[2];  // links[0]: from end 0 to end 1
  std::unique_ptr<SlotPool> pools[2][3];
  Side sides[2];
  std::unique_ptr<Flow> flows[2];  // flows[0]: requester is end 0
  Trouble trouble = Trouble::kNone;
  uint32_t trouble_side = 0;
  bool trouble_made = false;
  uint32_t lives_left = 0;
  bool draining[2] = {false, false};
  bool moving = false;
};

Simulation::Simulation(uint64_t seed)
    : seed_(seed), random_(seed), connection_count_(0) {
  connection_count_ = static_cast<uint32_t>(1 + random_.Below(3));
  message_max_ = static_cast<uint32_t>(1024 << random_.Below(4));
  slots_ = static_cast<uint32_t>(6 + random_.Below(12));
  slot_bytes_ = message_max_ + 96;
  link_config_ = MakeLinkConfig();
  BuildHosts();
  for (uint32_t i = 0; i < connection_count_; ++i) BuildConnection(i);
}

Simulation::~Simulation() = default;

LinkConfig Simulation::MakeLinkConfig() {
  LinkConfig config;
  config.delay =
      Duration::Microseconds(static_cast<int64_t>(1 + random_.Below(30)));
  switch (random_.Below(4)) {
    case 0:
      mild_ = true;
      switch (random_.Below(3)) {
        case 0:  // nothing is lost or reordered: no timer is ever needed
          no_timer_ = true;
          config.duplicate_ppm = 3000;
          break;
        case 1:  // the order may be odd
          config.jitter = config.delay;
          break;
        default:
          break;
      }
      break;
    case 1:
      mild_ = true;
      config.loss_ppm = 3000;
      config.duplicate_ppm = 3000;
      config.reorder_ppm = 3000;
      config.corrupt_ppm = 1000;
      break;
    case 2:
      config.loss_ppm = static_cast<uint32_t>(random_.Below(30000));
      config.bursts = {.enter_ppm = static_cast<uint32_t>(random_.Below(3000)),
                       .leave_ppm = 150'000};
      config.duplicate_ppm = static_cast<uint32_t>(random_.Below(30000));
      config.reorder_ppm = static_cast<uint32_t>(random_.Below(50000));
      config.corrupt_ppm = static_cast<uint32_t>(random_.Below(10000));
      config.jitter =
          Duration::Nanoseconds(static_cast<int64_t>(random_.Below(20000)));
      break;
    default:
      config.loss_ppm = static_cast<uint32_t>(random_.Below(150000));
      config.duplicate_ppm = static_cast<uint32_t>(random_.Below(150000));
      config.reorder_ppm = static_cast<uint32_t>(random_.Below(150000));
      config.corrupt_ppm = static_cast<uint32_t>(random_.Below(30000));
  }
  return config;
}

void Simulation::BuildHosts() {
  // Per side: local, remote and receive slots.
  arena_bytes_ = 3 * SlotPool::BytesFor(slots_, slot_bytes_);
  const size_t bytes = kAtomicArea + connection_count_ * arena_bytes_;
  for (int i = 0; i < 2; ++i) {
    hosts_[i] = std::make_unique<FakeHost>((bytes + 4095) / 4096 * 4096, 1024,
                                           random_.Byte());
    images_[i] = std::make_unique<Image>(*hosts_[i], random_);
  }
}

void Simulation::BuildConnection(uint32_t number) {
  connections_.push_back(std::make_unique<Connection>());
  Connection& c = *connections_.back();
  c.lives_left = static_cast<uint32_t>(random_.Below(4));
  ConfigureEnds(c);
  if (random_.OneIn(4)) MakeXrc(c);
  ChooseTrouble(c);
  for (uint32_t which = 0; which < 2; ++which) BuildSide(c, which, number);
  MakeMoving(c, number);
  Wire(c);
  StartFlows(c);
}

// New PSNs, new programs, and both queue pairs to RTS.
void Simulation::StartFlows(Connection& c) {
  // Near the ends of the circle more often than not.
  const Psn psn[2] = {Psn(static_cast<uint32_t>(-random_.Below(300))),
                      Psn(static_cast<uint32_t>(random_.Next()))};
  for (uint32_t i = 0; i < 2; ++i) {
    c.config[i].sq_psn = psn[i];
    c.config[i].rq_psn = psn[1 - i];
    c.flow_config[i].first_psn = psn[i];
    c.flows[i] = std::make_unique<Flow>(random_.Next(), c.sides[i],
                                        c.sides[1 - i], c.flow_config[i]);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    c.nodes[i]->Restart(c.config[i]);
    c.ends[i]->Connect(c.config[i]);
  }
}

void Simulation::ConfigureEnds(Connection& c) {
  const auto pick = [this](uint64_t low, uint64_t high) {
    return low + random_.Below(high - low + 1);
  };
  const auto mtu = static_cast<uint32_t>(256 << random_.Below(5));
  const uint64_t rd_limit = random_.OneIn(4) ? rc::kReplaySlots : 16;
  const uint64_t rd_max[2] = {pick(1, rd_limit), pick(1, rd_limit)};
  for (uint32_t i = 0; i < 2; ++i) {
    testing::EndpointOptions& o = c.options[i];
    o.qpn = 0x100 + i;
    o.pd = static_cast<uint32_t>(connections_.size());
    o.sq_entries = static_cast<uint32_t>(4 << random_.Below(5));
    o.rq_entries = static_cast<uint32_t>(2 << random_.Below(6));
    o.max_sge = static_cast<uint32_t>(pick(1, 6));
    o.max_inline = static_cast<uint32_t>(pick(0, 512));
    o.sq_sig_all = random_.OneIn(4);
    QpConfig& q = c.config[i];
    q.dest_qpn = 0x100 + (1 - i);
    q.mtu = mtu;
    q.access = mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic |
               mem::kFlushGlobal;
    q.timeout =
        AckTimeout(no_timer_ ? uint8_t{0} : static_cast<uint8_t>(pick(8, 12)));
    q.retry_count = mild_ ? 7 : static_cast<uint8_t>(pick(3, 7));
    q.rnr_retry =
        !no_timer_ && random_.OneIn(4) ? static_cast<uint8_t>(pick(1, 6)) : 7;
    q.min_rnr_timer = static_cast<uint8_t>(pick(1, 14));
    q.max_rd_atomic = static_cast<uint8_t>(pick(1, rd_max[1 - i]));
    q.max_dest_rd_atomic = static_cast<uint8_t>(rd_max[i]);
    q.window_packets = static_cast<uint32_t>(pick(1, 128));
    if (random_.OneIn(8)) q.bits_per_second = pick(1, 40) * 1'000'000'000;
    FlowConfig& f = c.flow_config[i];
    f.requests = static_cast<uint32_t>(pick(10, 80));
    f.mtu = mtu;
    f.message_max = message_max_;
    f.max_sge = o.max_sge;
    f.max_inline = o.max_inline;
    f.receive_depth = static_cast<uint32_t>(pick(1, 24));
  }
  // The receive list is cut by the flow of the other side.
  const uint32_t max_sge = std::min(c.options[0].max_sge, c.options[1].max_sge);
  for (FlowConfig& f : c.flow_config) f.max_sge = max_sge;
}

// Requests name the receive queue, which outlives its queue pairs: the next one
// would find what was posted for this one.
void Simulation::MakeXrc(Connection& c) {
  for (uint32_t i = 0; i < 2; ++i) {
    c.options[i].xrc = true;
    c.options[i].srqn = static_cast<uint32_t>(1 + random_.Below(1 << 24) / 2);
  }
  c.lives_left = 0;
}

// In every second connection both queue pairs go from core to core, as images,
// whatever else happens to them. Numbers of its own: without it, a seed's run
// is the same.
void Simulation::MakeMoving(Connection& c, uint32_t number) {
  Random random(seed_ * 64 + number);
  c.moving = random.OneIn(2);
  if (!c.moving) return;
  const uint64_t every = 2 + random.Below(60);
  for (auto& end : c.ends) end->MoveNowAndThen(random.Next(), every);
}

void Simulation::ChooseTrouble(Connection& c) {
  c.trouble_side = static_cast<uint32_t>(random_.Below(2));
  FlowConfig& flow = c.flow_config[c.trouble_side];
  // Without timers nobody notices that the other side has died.
  switch (no_timer_ ? 7 + random_.Below(2) : random_.Below(16)) {
    case 0:
    case 1:
      c.trouble = Trouble::kBadRequest;
      flow.bad_request =
          static_cast<uint32_t>(1 + random_.Below(flow.requests));
      flow.bad_here = random_.OneIn(2);
      break;
    case 2:
      c.trouble = Trouble::kSmallReceive;
      flow.small_receive = static_cast<uint32_t>(1 + random_.Below(10));
      break;
    case 3:
      c.trouble = Trouble::kDeregister;
      break;
    case 4:
    case 5:
      c.trouble = Trouble::kBrokenMemory;
      break;
    case 6:
      c.trouble = Trouble::kModifyToError;
      break;
    case 7:
      c.trouble = Trouble::kDrain;
      break;
    default:
      break;
  }
}

void Simulation::BuildSide(Connection& c, uint32_t which, uint32_t number) {
  FakeHost& host = *hosts_[which];
  Image& image = *images_[which];
  Side& side = c.sides[which];
  const uint32_t pd = c.options[which].pd;
  const size_t part = SlotPool::BytesFor(slots_, slot_bytes_);
  const size_t begin = kAtomicArea + number * arena_bytes_;
  for (uint32_t i = 0; i < 3; ++i) {
    c.pools[which][i] = std::make_unique<SlotPool>(image, begin + i * part,
                                                   slots_, slot_bytes_);
  }
  c.ends[which] = std::make_unique<Endpoint>(host, c.options[which]);
  side.end = c.ends[which].get();
  side.local = c.pools[which][0].get();
  side.remote = c.pools[which][1].get();
  side.receive = c.pools[which][2].get();
  side.atomic_words = 256;
  side.atomic_key = host.Register(pd, side.atomic_words, 8 * kAtomicWords,
                                  mem::kLocalWrite | mem::kRemoteAtomic);
  RegisterKeys(c, which);
}

// Those that are not registered now.
void Simulation::RegisterKeys(Connection& c, uint32_t which) {
  FakeHost& host = *hosts_[which];
  Side& side = c.sides[which];
  const uint32_t pd = c.options[which].pd;
  const size_t part = SlotPool::BytesFor(slots_, slot_bytes_);
  const size_t begin = side.local->begin();
  const auto missing = [&host](uint32_t key) {
    return host.mrs().Find(MrKey{key}) == nullptr;
  };
  if (missing(side.local_key)) {
    side.local_key = host.Register(pd, begin, part, mem::kLocalWrite);
  }
  if (missing(side.remote_key)) {
    side.remote_iova_shift = random_.OneIn(2) ? 0 : random_.Next() >> 24 << 12;
    side.remote_key =
        host.RegisterAt(pd, begin + part, part,
                        (kAllRights & ~mem::kRemoteAtomic) | mem::kFlushGlobal,
                        host.address(begin + part) + side.remote_iova_shift);
  }
  if (missing(side.receive_key)) {
    side.receive_key =
        host.Register(pd, begin + 2 * part, part, mem::kLocalWrite);
  }
}

void Simulation::Wire(Connection& c) {
  for (uint32_t i = 0; i < 2; ++i) {
    c.links[i] = std::make_unique<Link>(
        world_, random_.Next(), link_config_,
        [&c, i](Packet p) { c.nodes[1 - i]->OnPacket(std::move(p)); });
    c.nodes[i] = std::make_unique<Node>(
        world_, *c.ends[i], c.config[i], random_.Next(),
        [&c, i](Packet p) { c.links[i]->Send(std::move(p)); });
    c.sides[i].node = c.nodes[i].get();
    c.ends[i]->on_completion = [&c, i](const Completion& done) {
      if (done.recv) {
        c.flows[1 - i]->OnReceiveDone(done);
      } else {
        c.flows[i]->OnSendDone(done);
      }
    };
    c.ends[i]->on_place = [&c, i](const Placement& placement) {
      if (placement.from_responder) c.flows[1 - i]->OnPlace(placement);
    };
  }
}

RunStats Simulation::Run() {
  for (auto& c : connections_) {
    world_.After(Duration::Microseconds(1), [this, &c] { ProgramStep(*c); });
  }
  world_.After(
      Duration::Microseconds(2000 + static_cast<int64_t>(random_.Below(90000))),
      [this] { StopFaults(); });
  const Time limit = world_.now() + kPatience;
  Require(world_.RunUntil(limit), "not idle long after the faults stopped");
  CheckAtEnd();
  return stats_;
}

void Simulation::ProgramStep(Connection& c) {
  for (uint32_t i = 0; i < 2; ++i) {
    const bool posted = c.flows[i]->PostRequests();
    if (posted) c.nodes[i]->Kick();
    if (random_.OneIn(2) && c.flows[i]->PostReceives(!faults_on_)) {
      c.nodes[1 - i]->Kick();
    }
  }
  if (c.trouble != Trouble::kNone) MakeTrouble(c);
  // A program that waits for receives to be used looks less often.
  const bool idle = c.flows[0]->idle() && c.flows[1]->idle();
  if (idle && !c.draining[0] && !c.draining[1]) return EndLife(c);
  const bool busy = !c.flows[0]->posted_all() || !c.flows[1]->posted_all();
  const auto pause = static_cast<int64_t>(1 + random_.Below(busy ? 60 : 500));
  world_.After(Duration::Microseconds(pause), [this, &c] { ProgramStep(c); });
}

void Simulation::EndLife(Connection& c) {
  if (c.lives_left == 0) return;
  --c.lives_left;
  // By then the links have delivered all that they hold.
  world_.After(Duration::Milliseconds(5), [this, &c] { BeginNextLife(c); });
}

void Simulation::BeginNextLife(Connection& c) {
  CheckConnection(c);
  c.trouble_made = false;
  for (FlowConfig& flow : c.flow_config) {
    flow.bad_request.reset();
    flow.small_receive.reset();
  }
  ChooseTrouble(c);
  for (uint32_t i = 0; i < 2; ++i) {
    c.ends[i]->qp().Modify(QpState::kReset, c.config[i]);
    const urnic_queue_indices& rq = c.ends[i]->rings().rq().indices();
    Require(rq.consumer == rq.producer, "RESET keeps receives");
    hosts_[i]->Mend();
    RegisterKeys(c, i);
    for (auto& pool : c.pools[i]) pool->Reclaim(random_);
  }
  StartFlows(c);
  ProgramStep(c);
}

void Simulation::MakeTrouble(Connection& c) {
  if (c.trouble == Trouble::kDrain) {
    Drain(c, 0);
    Drain(c, 1);
    return;
  }
  if (c.trouble_made || !random_.OneIn(20)) return;
  c.trouble_made = true;
  const uint32_t i = c.trouble_side;
  FakeHost& host = *hosts_[i];
  Side& side = c.sides[i];
  if (c.trouble == Trouble::kModifyToError) {
    c.ends[i]->qp().Modify(QpState::kErr, c.config[i]);
    c.nodes[i]->Kick();
  } else if (c.trouble == Trouble::kDeregister) {
    const uint32_t keys[] = {side.local_key, side.remote_key, side.receive_key};
    host.Deregister(keys[random_.Below(3)]);
  } else if (c.trouble == Trouble::kBrokenMemory) {
    const size_t part = SlotPool::BytesFor(slots_, slot_bytes_);
    const size_t begin = kAtomicArea + (c.options[i].pd - 1) * arena_bytes_ +
                         random_.Below(3) * part;
    host.Break(begin + random_.Below(part / 2), part / 2,
               random_.OneIn(2) ? FakeHost::Damage::kUnmapped
                                : FakeHost::Damage::kReadOnly);
  }
}

// Into SQD now and then; when it says "drained" it must be so, and nothing
// may have been started meanwhile; then back to RTS.
void Simulation::Drain(Connection& c, uint32_t i) {
  rc::Qp& qp = c.ends[i]->qp();
  if (qp.state() == QpState::kErr) {
    c.draining[i] = false;
    return;
  }
  if (!c.draining[i]) {
    if (!random_.OneIn(10) || c.flows[i]->idle()) return;
    c.draining[i] = true;
    qp.Modify(QpState::kSqd, c.config[i]);
    c.nodes[i]->Kick();
    return;
  }
  Endpoint& end = *c.ends[i];
  for (QpEvent e = end.TakeEvent(); e != QpEvent::kNone; e = end.TakeEvent()) {
    if (e != QpEvent::kSqDrained) continue;
    Require(!qp.send_state().Outstanding(), "drained, yet not acknowledged");
    c.draining[i] = false;
    qp.Modify(QpState::kRts, c.config[i]);
    c.nodes[i]->Kick();
    return;
  }
}

void Simulation::StopFaults() {
  faults_on_ = false;
  for (auto& c : connections_) {
    for (auto& link : c->links) link->StopFaults();
  }
}

// Without trouble of their own connections end well, unless a retry counter
// was allowed to run out.
void Simulation::CheckErrors(const Connection& c) const {
  if (c.trouble != Trouble::kNone && c.trouble != Trouble::kDrain) return;
  for (uint32_t i = 0; i < 2; ++i) {
    if (!c.flows[i]->failed()) continue;
    const uint8_t error = c.flows[i]->first_error();
    const bool peer_failed = c.flows[1 - i]->failed();
    bool fine = false;
    if (error == URNIC_WC_RNR_RETRY_EXC_ERR) {
      fine = c.config[i].rnr_retry != 7;
    } else if (error == URNIC_WC_RETRY_EXC_ERR) {
      fine = !mild_ || peer_failed;
    } else {
      fine = error == URNIC_WC_WR_FLUSH_ERR;
    }
    Require(fine, "an error without a reason");
  }
}

void Simulation::CheckConnection(Connection& c) {
  CheckErrors(c);
  ++stats_.connections;
  for (auto& flow : c.flows) {
    flow->CheckAtEnd();
    stats_.requests += flow->succeeded();
  }
  stats_.in_error += c.ends[0]->qp().state() == QpState::kErr ||
                     c.ends[1]->qp().state() == QpState::kErr;
}

void Simulation::CheckAtEnd() {
  for (auto& c : connections_) {
    CheckConnection(*c);
    for (uint32_t i = 0; i < 2; ++i) {
      stats_.packets += c->links[i]->count(LinkCount::k_offered);
      stats_.lost += c->links[i]->count(LinkCount::k_lost) +
                     c->links[i]->count(LinkCount::k_burst_lost);
      stats_.corrupted += c->nodes[i]->corrupt_dropped();
      stats_.moves += c->ends[i]->moves();
      stats_.resent += c->ends[i]->qp().send_state().counters.requests_resent;
    }
  }
  for (auto& image : images_) image->CheckAll("the memory at the end");
  stats_.virtual_time = world_.now() - Time::FromNs(1000000000);
}

std::string Simulation::Describe() const {
  static constexpr const char* kTroubles[] = {
      "none",       "drain",         "bad request",    "small receive",
      "deregister", "broken memory", "modify to error"};
  std::string text = std::to_string(connection_count_) + " connections, loss " +
                     std::to_string(link_config_.loss_ppm) + " ppm";
  for (const auto& c : connections_) {
    text += std::string(", mtu ") + std::to_string(c->config[0].mtu) +
            (c->options[0].xrc ? " xrc" : "") + (c->moving ? " moving" : "") +
            " trouble " + kTroubles[static_cast<int>(c->trouble)];
  }
  return text;
}

}  // namespace urnic::sim
