#include "tests/sim/engine_run.h"

#include <algorithm>
#include <cstring>

#include "tests/sim/fcs.h"
#include "tests/support/host_wire.h"

namespace urnic::sim {

namespace {

constexpr Duration kRunPatience = Duration::Seconds(60);

Duration Micros(uint64_t n) {
  return Duration::Microseconds(static_cast<int64_t>(n));
}

}  // namespace

// A host, and its place at the switch.
struct EngineRun::Place {
  std::unique_ptr<EngineHost> host;
  Switch::Place* at = nullptr;
};

EngineRun::EngineRun(Buffers& buffers, uint64_t seed)
    : buffers_(buffers), random_(seed), switch_(world_) {
  MakeWire();
  const uint64_t hosts =
      random_.OneIn(8) ? 2 + random_.Below(15) : 2 + random_.Below(3);
  for (uint64_t i = 1; i <= hosts; ++i) {
    MakeHost(static_cast<uint8_t>(i), buffers);
  }
  const uint64_t talks = 1 + random_.Below(std::min<uint64_t>(hosts * 2, 10));
  for (uint32_t i = 0; i < talks; ++i) MakeTalk(i);
  std::vector<EngineHost*> all;
  for (const auto& place : places_) all.push_back(place->host.get());
  mail_ = std::make_unique<Mail>(world_, all, ordered_, random_.Next());
  stranger_ = std::make_unique<Link>(
      world_, random_.Next(), link_,
      [this](Frame frame) { switch_.Arrive(std::move(frame)); });
  pings_ = std::make_unique<Pings>(ipv6_, random_.Next(), [this](Frame frame) {
    AppendFcs(frame);
    stranger_->Send(std::move(frame));
  });
  switch_.AddStranger(Pings::kMac,
                      [this](const Frame& frame) { pings_->OnFrame(frame); });
}

EngineRun::~EngineRun() = default;

void EngineRun::MakeWire() {
  ipv6_ = random_.OneIn(2);
  mtu_ = random_.OneIn(2) ? 1500 : 4200;
  link_.delay = Micros(1 + random_.Below(30));
  const auto up_to = [&](uint64_t most) {
    return static_cast<uint32_t>(random_.Below(most));
  };
  switch (random_.Below(4)) {
    case 0:  // nothing is lost or reordered
      break;
    case 1:
      ordered_ = false;
      moves_ = !ipv6_;
      break;
    case 2:
      ordered_ = false;
      moves_ = !ipv6_ && random_.OneIn(2);
      link_.loss_ppm = up_to(10000);
      link_.duplicate_ppm = up_to(10000);
      link_.reorder_ppm = up_to(20000);
      link_.corrupt_ppm = up_to(5000);
      link_.jitter = Micros(random_.Below(20));
      break;
    default:
      mild_ = ordered_ = false;
      link_.loss_ppm = up_to(150000);
      link_.bursts = {.enter_ppm = up_to(2000), .leave_ppm = 100'000};
      link_.duplicate_ppm = up_to(50000);
      link_.reorder_ppm = up_to(100000);
      link_.corrupt_ppm = up_to(50000);
      link_.jitter = Micros(random_.Below(100));
      if (random_.OneIn(2)) {
        link_.bits_per_second = 1'000'000'000;
        link_.buffer_bytes = 20000 + random_.Below(100000);
      }
  }
}

void EngineRun::MakeHost(uint8_t number, const Buffers& buffers) {
  places_.push_back(std::make_unique<Place>());
  Place& place = *places_.back();
  LinkConfig down;
  down.delay = link_.delay;
  const uint64_t up_seed = random_.Next();
  const uint64_t down_seed = random_.Next();
  place.at = &switch_.Add(
      testing::MacOf(number), link_, up_seed, down, down_seed,
      [&place](Frame frame) { place.host->port().OnFrame(std::move(frame)); });
  EngineHostConfig config;
  config.number = number;
  config.ipv6 = ipv6_;
  config.program_polls = random_.OneIn(2);
  config.port.frames.mac = testing::MacOf(number);
  config.port.frames.mtu = mtu_;
  config.port.frames.pool = buffers.pool();
  config.port.frames.lcore = buffers.lcore();
  // A ring that is too short loses frames, like a wire.
  config.port.frames.rx_ring = ordered_ || random_.OneIn(2) ? 4096 : 64;
  config.port.tx_ring = static_cast<uint32_t>(1u << random_.Below(9));
  config.port.frame_time =
      Duration::Nanoseconds(static_cast<int64_t>(10 + random_.Below(1000)));
  place.host = std::make_unique<EngineHost>(
      world_, config, random_.Next(),
      [this, &place](Frame frame) {
        switch_.Send(*place.at, std::move(frame));
      },
      [this](EngineHost& host, const cm::Event& event) {
        OnCmEvent(host, event);
      });
}

void EngineRun::MakeTalk(uint32_t number) {
  const uint64_t one = random_.Below(places_.size());
  // Some talk to themselves.
  const uint64_t other = random_.Below(places_.size());
  TalkConfig config;
  config.number = number;
  config.mtu = 256u << random_.Below(mtu_ > 4096 ? 5 : 3);
  config.message_max = 1024u << random_.Below(5);
  config.messages = static_cast<uint32_t>(10 + random_.Below(40));
  config.depth = static_cast<uint32_t>(
      random_.OneIn(3) ? 1 : 1 + random_.Below(Talk::kSlots));
  config.lives = static_cast<uint32_t>(1 + random_.Below(3));
  config.mild = mild_;
  // A recently confirmed neighbour is still asked along the old path.
  config.still = mild_ && !moves_;
  config.ordered = ordered_;
  talks_.push_back(std::make_unique<Talk>(world_, *places_[one]->host,
                                          *places_[other]->host, config,
                                          random_.Next()));
}

EngineStats EngineRun::Run() {
  for (const auto& talk : talks_) talk->Start();
  mail_->Start();
  PlanPing();
  if (moves_) PlanMove();
  const auto over = [&] {
    return mail_->over() &&
           std::all_of(talks_.begin(), talks_.end(),
                       [](const auto& talk) { return talk->over(); });
  };
  const Time limit = world_.now() + kRunPatience;
  for (Time next = world_.now(); !over(); next = next + Micros(10000)) {
    if (next > limit) {
      for (const auto& talk : talks_) {
        if (!talk->over()) Violate("no end is in sight: " + talk->Where());
      }
      Violate("datagrams have not come");
    }
    (void)world_.RunUntil(next);
  }
  for (const auto& talk : talks_) {
    stats_.lives += talk->stats().lives;
    stats_.messages += talk->stats().messages;
    stats_.failures += talk->stats().failures;
  }
  stats_.datagrams = mail_->received();
  stats_.pings = pings_->answered();
  talks_.clear();
  mail_.reset();
  for (const auto& place : places_) {
    place->host->cm().CheckInvariants();
    Require(!ordered_ ||
                place->host->engine().CountersOfAll().requesters.timeouts == 0,
            "a timer was needed where nothing is lost");
    stats_.lost += place->host->port().lost();
    stats_.blocked += place->host->port().blocked();
  }
  stats_.lost += switch_.lost();
  stats_.events = world_.events_run();
  places_.clear();
  Require(buffers_.AllThere(), "a buffer is lost");
  return stats_;
}

void EngineRun::OnCmEvent(EngineHost& host, const cm::Event& event) {
  if (event.kind == cm::EventKind::kReqReceived) {
    uint32_t number = 0;
    std::memcpy(&number, event.private_data.data(), sizeof(number));
    Require(number < talks_.size(), "a request of nobody");
    return talks_[number]->OnRequest(event);
  }
  for (const auto& talk : talks_) {
    if (talk->Owns(host, event.handle)) return talk->OnCmEvent(host, event);
  }
}

// --- The network -------------------------------------------------------------

void EngineRun::PlanPing() {
  const Place& place = *places_[random_.Below(places_.size())];
  pings_->Ping(Switch::seen(*place.at), place.host->gid());
  world_.After(Micros(100 + random_.Below(20000)), [this] { PlanPing(); });
}

void EngineRun::PlanMove() {
  world_.After(Micros(1000 + random_.Below(400000)), [this] {
    Move();
    PlanMove();
  });
}

// Moves a host, announced or not.
void EngineRun::Move() {
  Place& place = *places_[random_.Below(places_.size())];
  switch_.Move(*place.at);
  ++stats_.moves;
  if (random_.OneIn(2)) return;
  switch_.Send(*place.at, testing::AnnounceFrame(testing::SelfOf(
                              Switch::seen(*place.at), place.host->gid())));
}

}  // namespace urnic::sim
