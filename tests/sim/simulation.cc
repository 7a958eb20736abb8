#include "tests/sim/simulation.h"

#include <algorithm>
#include <utility>

#include "tests/sim/fcs.h"
#include "transport/rc/qp.h"
#include "transport/rc/replay.h"
#include "transport/work/timers.h"

namespace urnic::sim {
namespace {

constexpr uint32_t kAllRights = mem::kLocalWrite | mem::kRemoteWrite |
                                mem::kRemoteRead | mem::kRemoteAtomic;
constexpr size_t kAtomicArea = ProgramMemory::kPage;
constexpr uint32_t kParts = 3;  // of a side's memory: local, remote, receive
constexpr Duration kPatience = Duration::Seconds(120);
// How long the first questions for neighbours take, including all answers.
constexpr Duration kIntroduction = Duration::Milliseconds(2);
// By then the links have delivered all that they hold.
constexpr Duration kQuiet = Duration::Milliseconds(5);
// The inputs of every queue pair are logged once in so many runs.
constexpr uint64_t kLoggedEvery = 4;
// Of random numbers that are separate from those of the connections.
constexpr uint64_t kForgerSeed = 63;

}  // namespace

struct Simulation::Connection {
  RcEndOptions options[2];
  QpConfig config[2];
  FlowConfig flow_config[2];
  std::unique_ptr<RcEnd> ends[2];
  std::unique_ptr<Link> links[2];  // links[0]: from end 0 to end 1
  std::unique_ptr<SlotPool> pools[2][3];
  Side sides[2];
  std::unique_ptr<Flow> flows[2];  // flows[0]: requester is end 0
  Trouble trouble = Trouble::kNone;
  uint32_t trouble_side = 0;
  bool trouble_made = false;
  uint32_t lives_left = 0;
  bool resting = false;  // nothing is to arrive before the next life
  bool over = false;
  bool draining[2] = {false, false};
  bool moving = false;
};

Simulation::Simulation(const Buffers& buffers, uint64_t seed)
    : seed_(seed), random_(seed), connection_count_(0) {
  connection_count_ = static_cast<uint32_t>(1 + random_.Below(3));
  message_max_ = static_cast<uint32_t>(1024 << random_.Below(4));
  slots_ = static_cast<uint32_t>(6 + random_.Below(12));
  slot_bytes_ = message_max_ + 96;
  part_bytes_ = SlotPool::BytesFor(slots_, slot_bytes_);
  part_bytes_ += -part_bytes_ % ProgramMemory::kPage;
  link_config_ = MakeLinkConfig();
  BuildHosts(buffers);
  BuildMemories();
  for (uint32_t i = 0; i < connection_count_; ++i) BuildConnection(i);
  MakeForger();
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

void Simulation::BuildHosts(const Buffers& buffers) {
  const bool ipv6 = random_.OneIn(2);
  for (int i = 0; i < 2; ++i) {
    MachineConfig config;
    config.number = static_cast<uint8_t>(1 + i);
    config.ipv6 = ipv6;
    config.program_polls = random_.OneIn(2);
    config.tx_ring = static_cast<uint32_t>(1u << random_.Below(6));
    config.frame_time =
        Duration::Nanoseconds(static_cast<int64_t>(random_.Below(2000)));
    config.ahead[1] = Duration::Nanoseconds(
        static_cast<int64_t>(random_.Below(uint64_t{1} << 40)));
    machines_[i] = std::make_unique<Machine>(
        world_, buffers, config, random_.Next(),
        [this, i](Frame frame) { OnFrame(i, std::move(frame)); });
  }
  for (int i = 0; i < 2; ++i) machines_[i]->Resolve(machines_[1 - i]->gid());
  (void)world_.RunUntil(world_.now() + kIntroduction);
}

void Simulation::BuildMemories() {
  const size_t bytes = kAtomicArea + connection_count_ * kParts * part_bytes_;
  for (int i = 0; i < 2; ++i) {
    memories_[i] = std::make_unique<ProgramMemory>(
        bytes, machines_[i]->rnic(0).network().mrs(),
        machines_[i]->rnic(1).network().mrs());
    images_[i] = std::make_unique<Image>(*memories_[i], random_);
  }
}

// There is a stranger in every second run.
void Simulation::MakeForger() {
  Random random(seed_ * 64 + kForgerSeed);
  if (!random.OneIn(2)) return;
  forged_every_ =
      Duration::Microseconds(static_cast<int64_t>(5 + random.Below(200)));
  forger_.emplace(random.Next());
}

// Packets of queue pairs go over the link of their connection, and everything
// else over one without faults.
void Simulation::OnFrame(int from, Frame frame) {
  Machine& peer = *machines_[1 - from];
  const std::optional<uint32_t> qpn = Machine::QpnOf(frame);
  const RcEnd* to = qpn.has_value() ? peer.Find(*qpn) : nullptr;
  if (to == nullptr) {
    Require(!qpn.has_value(), "a packet to an unknown queue pair");
    world_.After(link_config_.delay,
                 [&peer, frame = std::move(frame)] { peer.OnFrame(frame); });
    return;
  }
  wire::FrameView view;
  wire::RocePacket packet;
  Require(wire::ParseFrame(frame.data(), frame.size(), view) ==
                  RxVerdict::kAccept &&
              wire::ParseRoce(view.payload, view.payload_bytes, packet) ==
                  RxVerdict::kAccept,
          "a malformed packet is sent");
  for (auto& c : connections_) {
    if (c->ends[1 - from].get() != to) continue;
    c->ends[from]->OnSent(packet);
    AppendFcs(frame);
    c->links[from]->Send(std::move(frame));
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
  // Near the wrap-around more often than not.
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
    c.config[i].dest_qpn = c.ends[1 - i]->qpn();
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
    RcEndOptions& o = c.options[i];
    o.pd = static_cast<uint32_t>(connections_.size());
    o.sq_entries = static_cast<uint32_t>(4 << random_.Below(5));
    o.rq_entries = static_cast<uint32_t>(2 << random_.Below(6));
    o.max_sge = static_cast<uint32_t>(pick(1, 6));
    o.max_inline = static_cast<uint32_t>(pick(0, 512));
    o.sq_sig_all = random_.OneIn(4);
    o.two_queues = random_.OneIn(2);
    QpConfig& q = c.config[i];
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

// Requests name the receive queue, which outlives its queue pairs: the next
// queue pair would find what was posted for this one.
void Simulation::MakeXrc(Connection& c) {
  for (RcEndOptions& options : c.options) options.xrc = true;
  c.lives_left = 0;
}

// In every second connection both queue pairs move from engine to engine, as
// images, whatever else happens to them. The random numbers are separate: a
// seed's run is the same without moves.
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
  // Without timers, the end of the other side goes unnoticed.
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
  ProgramMemory& memory = *memories_[which];
  Side& side = c.sides[which];
  const uint32_t pd = c.options[which].pd;
  const size_t begin = kAtomicArea + number * kParts * part_bytes_;
  for (uint32_t i = 0; i < kParts; ++i) {
    c.pools[which][i] = std::make_unique<SlotPool>(
        *images_[which], begin + i * part_bytes_, slots_, slot_bytes_);
  }
  c.ends[which] = std::make_unique<RcEnd>(world_, *machines_[which], memory,
                                          c.options[which]);
  side.end = c.ends[which].get();
  // Not drawn: with or without it, a seed is nearly the same run.
  if (seed_ % kLoggedEvery == 0 && !c.options[which].xrc)
    side.end->LogInputs(InputLog::kBytesMin << seed_ / kLoggedEvery % 5);
  side.local = c.pools[which][0].get();
  side.remote = c.pools[which][1].get();
  side.receive = c.pools[which][2].get();
  side.atomic_words = 256;
  side.atomic_key = memory.Register(pd, side.atomic_words, 8 * kAtomicWords,
                                    mem::kLocalWrite | mem::kRemoteAtomic);
  RegisterKeys(c, which);
}

// Registers the keys that are not registered now.
void Simulation::RegisterKeys(Connection& c, uint32_t which) {
  ProgramMemory& memory = *memories_[which];
  Side& side = c.sides[which];
  const uint32_t pd = c.options[which].pd;
  const auto missing = [&](uint32_t key) { return !memory.IsRegistered(key); };
  if (missing(side.local_key)) {
    side.local_key =
        memory.Register(pd, side.local->begin(), part_bytes_, mem::kLocalWrite);
  }
  if (missing(side.remote_key)) {
    const size_t begin = side.remote->begin();
    side.remote_iova_shift = random_.OneIn(2) ? 0 : random_.Next() >> 24 << 12;
    side.remote_key = memory.RegisterAt(
        pd, begin, part_bytes_,
        (kAllRights & ~mem::kRemoteAtomic) | mem::kFlushGlobal,
        memory.address(begin) + side.remote_iova_shift);
  }
  if (missing(side.receive_key)) {
    side.receive_key = memory.Register(pd, side.receive->begin(), part_bytes_,
                                       mem::kLocalWrite);
  }
}

void Simulation::Wire(Connection& c) {
  for (uint32_t i = 0; i < 2; ++i) {
    c.links[i] = std::make_unique<Link>(
        world_, random_.Next(), link_config_, [this, i](Frame frame) {
          if (!TakeFcs(frame)) {
            ++stats_.corrupted;
          } else {
            machines_[1 - i]->OnFrame(std::move(frame));
          }
        });
    c.ends[i]->on_completion = [&c, i](const Completion& done) {
      if (done.recv) {
        c.flows[1 - i]->OnReceiveDone(done);
      } else {
        c.flows[i]->OnSendDone(done);
      }
    };
    c.ends[i]->on_placed = [&c, i](const Placement& placement) {
      if (placement.from_responder) c.flows[1 - i]->OnPlaced(placement);
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
  if (forger_.has_value()) PlanForgery();
  const Time limit = world_.now() + kPatience;
  while (!over()) {
    Require(world_.now() < limit, "not idle long after the faults stopped");
    (void)world_.RunUntil(world_.now() + kQuiet);
  }
  CheckAtEnd();
  return stats_;
}

bool Simulation::over() const {
  return std::ranges::all_of(connections_,
                             [](const auto& c) { return c->over; });
}

void Simulation::ProgramStep(Connection& c) {
  for (uint32_t i = 0; i < 2; ++i) {
    if (c.flows[i]->PostRequests()) c.ends[i]->Doorbell();
    if (random_.OneIn(2) && c.flows[i]->PostReceives(!faults_on_)) {
      c.ends[1 - i]->OnReceivesPosted();
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
  c.resting = true;
  world_.After(kQuiet, [this, &c] {
    CheckConnection(c);
    c.over = c.lives_left == 0;
    if (!c.over) BeginNextLife(c);
  });
}

void Simulation::BeginNextLife(Connection& c) {
  --c.lives_left;
  c.resting = c.trouble_made = false;
  for (FlowConfig& flow : c.flow_config) {
    flow.bad_request.reset();
    flow.small_receive.reset();
  }
  ChooseTrouble(c);
  for (uint32_t i = 0; i < 2; ++i) {
    c.ends[i]->Modify(QpState::kReset, c.config[i]);
    const urnic_queue_indices& rq = c.ends[i]->rings().rq().indices();
    Require(rq.consumer == rq.producer, "RESET keeps receives");
    memories_[i]->Restore();
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
  ProgramMemory& memory = *memories_[i];
  Side& side = c.sides[i];
  if (c.trouble == Trouble::kModifyToError) {
    c.ends[i]->Modify(QpState::kErr, c.config[i]);
  } else if (c.trouble == Trouble::kDeregister) {
    const uint32_t keys[] = {side.local_key, side.remote_key, side.receive_key};
    memory.Deregister(keys[random_.Below(3)]);
  } else if (c.trouble == Trouble::kBrokenMemory) {
    // Half of a pool, from some page on.
    constexpr size_t kPage = ProgramMemory::kPage;
    const size_t pages = part_bytes_ / kPage;
    const size_t broken = (pages + 1) / 2;
    const size_t first = random_.Below(pages - broken + 1);
    memory.Break(c.pools[i][random_.Below(kParts)]->begin() + first * kPage,
                 broken * kPage,
                 random_.OneIn(2) ? ProgramMemory::Damage::kUnmapped
                                  : ProgramMemory::Damage::kReadOnly);
  }
}

// Goes to SQD now and then. When "drained" is reported it must be true, and
// nothing may have been started meanwhile. Then it goes back to RTS.
void Simulation::Drain(Connection& c, uint32_t i) {
  RcEnd& end = *c.ends[i];
  if (end.state() == QpState::kErr) {
    c.draining[i] = false;
    return;
  }
  if (!c.draining[i]) {
    if (!random_.OneIn(10) || c.flows[i]->idle()) return;
    c.draining[i] = true;
    (void)end.TakeDrained();
    end.Modify(QpState::kSqd, c.config[i]);
    return;
  }
  if (!end.TakeDrained()) return;
  Require(!end.core().send_state().Outstanding(),
          "drained, yet not acknowledged");
  c.draining[i] = false;
  end.Modify(QpState::kRts, c.config[i]);
}

// To one end after the other.
void Simulation::PlanForgery() {
  world_.After(forged_every_, [this] {
    if (!faults_on_) return;
    const uint64_t turn = forged_turn_++;
    const uint64_t which = turn / 2 % connections_.size();
    const auto to = static_cast<int>(turn % 2);
    const Connection& c = *connections_[which];
    const RcEnd& end = *c.ends[to];
    if (end.state() == QpState::kRts && !c.resting && !end.options().xrc) {
      ++stats_.forged;
      machines_[to]->OnFrame(forger_->Forge(end, machines_[1 - to]->path(0)));
    }
    PlanForgery();
  });
}

void Simulation::StopFaults() {
  faults_on_ = false;
  for (auto& c : connections_) {
    for (auto& link : c->links) link->StopFaults();
  }
}

// Connections without trouble of their own end well, unless a retry counter was
// allowed to run out.
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
  stats_.in_error += c.ends[0]->state() == QpState::kErr ||
                     c.ends[1]->state() == QpState::kErr;
}

void Simulation::CheckAtEnd() {
  for (auto& c : connections_) {
    for (uint32_t i = 0; i < 2; ++i) {
      stats_.packets += c->links[i]->count(LinkCount::k_offered);
      stats_.lost += c->links[i]->count(LinkCount::k_lost) +
                     c->links[i]->count(LinkCount::k_burst_lost);
      stats_.moves += c->ends[i]->moves();
      stats_.replayed += c->ends[i]->CheckInputs();
      stats_.resent += c->ends[i]->core().send_state().counters.requests_resent;
    }
    CheckNothingHeld(*c);
  }
  for (const auto& machine : machines_) {
    stats_.corrupted += machine->count(RxVerdict::kBadIcrc);
    for (int i = 0; i < 2; ++i) {
      stats_.blocked += machine->rnic(i).port().blocked();
    }
  }
  for (auto& image : images_) image->CheckAll("the memory at the end");
  stats_.virtual_time = world_.now() - Time::FromNs(1000000000);
}

// Everything has arrived, so nothing waits for something else. (A stranger's
// packet may be held forever, and so may what a failed peer has sent.)
void Simulation::CheckNothingHeld(const Connection& c) const {
  if (forger_.has_value()) return;
  for (const auto& end : c.ends) {
    if (end->state() != QpState::kRts) return;
  }
  for (const auto& end : c.ends) {
    Require(!end->core().responder().holds(), "a request is held forever");
    Require(end->core().send_state().recovery == nullptr,
            "a repair that does not end");
  }
}

std::string Simulation::Describe() const {
  static constexpr const char* kTroubles[] = {
      "none",       "drain",         "bad request",    "small receive",
      "deregister", "broken memory", "modify to error"};
  std::string text = std::to_string(connection_count_) + " connections, loss " +
                     std::to_string(link_config_.loss_ppm) + " ppm" +
                     (forger_.has_value() ? ", forged packets" : "");
  for (const auto& c : connections_) {
    text += std::string(", mtu ") + std::to_string(c->config[0].mtu) +
            (c->options[0].xrc ? " xrc" : "") + (c->moving ? " moving" : "") +
            " trouble " + kTroubles[static_cast<int>(c->trouble)];
  }
  return text;
}

}  // namespace urnic::sim
