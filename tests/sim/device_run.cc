#include "tests/sim/device_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/fcs.h"
#include "tests/support/host_wire.h"

namespace urnic::sim {

namespace {

// The inputs of every queue pair are logged once in so many runs.
constexpr uint64_t kLoggedEvery = 4;
constexpr Duration kRunPatience = Duration::Seconds(4000);
// After the last session: what is left ends by itself, or is given up.
constexpr Duration kLastPatience = Duration::Seconds(400);
constexpr uint8_t kRouter = 254;
constexpr uint64_t kForgeries = 5000;
// A network that changes all the time may lose every repetition of a segment.
constexpr uint32_t kNarrowings = 3;
constexpr uint32_t kAddressLosses = 3;
constexpr uint32_t kMoves = 20;

Duration Micros(uint64_t n) {
  return Duration::Microseconds(static_cast<int64_t>(n));
}

}  // namespace

// A host with its listener, and its place at the switch.
struct DeviceRun::Place final : ConnectionEvents {
  explicit Place(DeviceRun& run) : run(run) {}
  void OnConnectionEvent(IwarpConnection& connection, iwarp::Event) override {
    run.OnRequest(*this, connection);
  }
  ConnectionTable& table() const { return host->engine().connections(); }

  DeviceRun& run;
  Switch::Place* at = nullptr;
  std::unique_ptr<EngineHost> host;
  ConnectionLimits limits;
  IwarpListener* door = nullptr;
};

DeviceRun::DeviceRun(Buffers& buffers, uint64_t seed)
    : seed_(seed), buffers_(buffers), random_(seed), switch_(world_) {
  MakeWire();
  const uint64_t hosts = 2 + (random_.OneIn(4) ? random_.Below(5) : 0);
  for (uint64_t i = 1; i <= hosts; ++i) MakeHost(static_cast<uint8_t>(i));
  const uint64_t sessions =
      1 + random_.Below(random_.OneIn(8) ? 40 : hosts * 2);
  for (uint32_t i = 0; i < sessions; ++i) MakeSession(i);
  flood_ = std::make_unique<Flood>(ipv6_, random_.Next(), [this](Frame frame) {
    AppendFcs(frame);
    switch_.Arrive(std::move(frame));
  });
}

DeviceRun::~DeviceRun() = default;

void DeviceRun::MakeWire() {
  ipv6_ = random_.OneIn(2);
  mtu_ = random_.OneIn(2) ? 1500 : 4200;
  link_.delay = Micros(1 + random_.Below(random_.OneIn(4) ? 5000 : 50));
  const auto up_to = [&](uint64_t most) {
    return static_cast<uint32_t>(random_.Below(most));
  };
  switch (random_.Below(4)) {
    case 0:  // nothing is lost or reordered
      break;
    case 1:
      ordered_ = false;
      link_.loss_ppm = up_to(10000);
      link_.duplicate_ppm = up_to(10000);
      link_.reorder_ppm = up_to(20000);
      link_.corrupt_ppm = up_to(5000);
      link_.jitter = Micros(random_.Below(20));
      break;
    case 2:  // reordered only
      ordered_ = false;
      link_.reorder_ppm = up_to(200000);
      link_.jitter = Micros(random_.Below(200));
      break;
    default:
      mild_ = still_ = ordered_ = false;
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
  if (random_.OneIn(3)) backlog_ = static_cast<uint32_t>(1 + random_.Below(4));
  // Peers repeat what finds the backlog full, but give up in the end.
  if (backlog_ < 128) still_ = false;
}

ConnectionLimits DeviceRun::MakeLimits() {
  ConnectionLimits limits;
  const bool few = random_.OneIn(3);
  limits.max_connections = 256;
  limits.half_open = few ? 4 : 64;
  limits.time_wait = few ? 4 : 256;
  limits.segment_blocks = few ? 16 : 256;
  limits.ranges = few ? 8 : 256;
  limits.early_fpdus = few ? 8 : 256;
  limits.held_pieces = few ? 8 : 256;
  limits.kept_fpdus = few ? 4 : 256;
  limits.kept_per_connection = few ? 2 : 16;
  limits.window_bytes = 1u << (few ? 13 : 13 + random_.Below(8));
  return limits;
}

void DeviceRun::MakeHost(uint8_t number) {
  places_.push_back(std::make_unique<Place>(*this));
  Place& place = *places_.back();
  LinkConfig down;
  down.delay = link_.delay;
  const uint64_t up_seed = random_.Next();
  const uint64_t down_seed = random_.Next();
  place.at = &switch_.Add(
      testing::MacOf(number), link_, up_seed, down, down_seed,
      [&place](Frame frame) { place.host->port().OnFrame(std::move(frame)); });
  place.limits = MakeLimits();
  EngineHostConfig config;
  config.number = number;
  config.ipv6 = ipv6_;
  config.iwarp = true;
  config.connections = place.limits;
  config.program_polls = random_.OneIn(2);
  config.clock_ahead = Micros(random_.Below(1u << 30));
  config.port.frames.mac = testing::MacOf(number);
  config.port.frames.mtu = mtu_;
  config.port.frames.pool = buffers_.pool();
  config.port.frames.lcore = buffers_.lcore();
  config.port.frames.rx_ring = ordered_ || random_.OneIn(2) ? 4096 : 64;
  config.port.tx_ring = static_cast<uint32_t>(1u << random_.Below(9));
  config.port.frame_time =
      Duration::Nanoseconds(static_cast<int64_t>(10 + random_.Below(1000)));
  place.host = std::make_unique<EngineHost>(
      world_, config, random_.Next(),
      [this, &place](Frame frame) {
        switch_.Send(*place.at, std::move(frame));
      },
      [](EngineHost&, const cm::Event&) {});
  OpenDoor(place);
}

void DeviceRun::MakeSession(uint32_t number) {
  EngineHost& one = *AnyPlace().host;
  // Some talk to themselves.
  EngineHost& other = *AnyPlace().host;
  SessionConfig config;
  config.number = number;
  config.message_max = 1024u << random_.Below(5);
  config.messages = static_cast<uint32_t>(5 + random_.Below(30));
  config.depth = static_cast<uint32_t>(
      random_.OneIn(3) ? 1 : 1 + random_.Below(Session::kSlots));
  config.lives = static_cast<uint32_t>(1 + random_.Below(4));
  config.mild = mild_;
  config.still = still_;
  config.calm = random_.OneIn(3);
  // Not drawn: with or without it, a seed is the same run.
  if (seed_ % kLoggedEvery == 0)
    config.log_bytes = InputLog::kBytesMin << seed_ / kLoggedEvery % 5;
  sessions_.push_back(
      std::make_unique<Session>(world_, one, other, config, random_.Next()));
}

// --- Listeners ---------------------------------------------------------------

void DeviceRun::OpenDoor(Place& place) {
  place.door = place.host->WithToken([&] {
    ListenerConfig config;
    config.local = random_.OneIn(2) ? place.host->gid() : wire::Gid{};
    config.port = Session::kPort;
    config.backlog = backlog_;
    config.setup.max_ird = 4;
    config.events = &place;
    const auto listener = place.table().Listen(config);
    Require(listener.ok(), "no listener");
    return *listener;
  });
}

void DeviceRun::OnRequest(Place& place, IwarpConnection& connection) {
  const uint32_t number =
      Session::NumberIn(connection.endpoint().private_data());
  Require(number < sessions_.size(), "a request of nobody");
  sessions_[number]->OnRequest(*place.host, connection);
}

// --- The run -----------------------------------------------------------------

bool DeviceRun::over() const {
  return std::ranges::all_of(
      sessions_, [](const auto& session) { return session->over(); });
}

DeviceStats DeviceRun::Run() {
  for (const auto& session : sessions_) session->Start();
  // Each is a reason why a connection may not come about.
  if (random_.OneIn(3))
    Repeat(random_.OneIn(2) ? 100 : 5000, [this] { Attack(); });
  if (!still_ && random_.OneIn(4)) Repeat(100000, [this] { CloseDoor(); });
  if (!still_ && random_.OneIn(4)) Repeat(500000, [this] { LoseAddress(); });
  if (!still_ && !ipv6_ && random_.OneIn(4)) Repeat(500000, [this] { Move(); });
  if (random_.OneIn(4)) Repeat(20000, [this] { NarrowPath(); });
  const Time limit = world_.now() + kRunPatience;
  for (Time next = world_.now(); !over(); next = next + Micros(10000)) {
    if (next > limit) {
      for (const auto& session : sessions_) {
        if (!session->over()) {
          Violate("no end is in sight: " + session->Where());
        }
      }
    }
    (void)world_.RunUntil(next);
  }
  for (const auto& session : sessions_) {
    const SessionStats& of = session->stats();
    stats_.sessions.lives += of.lives;
    stats_.sessions.connected += of.connected;
    stats_.sessions.troubles += of.troubles;
    stats_.sessions.messages += of.messages;
    stats_.sessions.failures += of.failures;
    stats_.sessions.replayed += of.replayed;
  }
  (void)world_.RunUntil(world_.now() + kLastPatience);
  CheckEnd();
  stats_.forged = flood_->sent();
  stats_.lost += switch_.lost();
  stats_.events = world_.events_run();
  sessions_.clear();
  places_.clear();
  Require(buffers_.AllThere(), "a buffer is lost");
  return stats_;
}

void DeviceRun::CheckEnd() {
  for (const auto& place : places_) {
    stats_.lost += place->host->port().lost();
    const ConnectionTable& table = place->table();
    if (table.size() != 0 || table.half_open() != 0 || table.time_wait() != 0) {
      Violate(absl::StrCat("left at the end: ", table.size(), " connections, ",
                           table.half_open(), " half open, ", table.time_wait(),
                           " in TIME-WAIT"));
    }
    const ConnectionPools& pools = table.pools();
    Require(pools.free_blocks() == place->limits.segment_blocks &&
                pools.free_ranges() == place->limits.ranges &&
                pools.free_pieces() == place->limits.held_pieces &&
                pools.free_early() == place->limits.early_fpdus &&
                pools.free_fpdus() == place->limits.kept_fpdus,
            "the memory of connections is not free at the end");
  }
}

// --- What the network does ---------------------------------------------------

void DeviceRun::Repeat(uint64_t most_us, std::function<void()> what) {
  world_.After(Micros(1 + random_.Below(most_us)),
               [this, most_us, what = std::move(what)] {
                 if (over()) return;
                 what();
                 Repeat(most_us, what);
               });
}

void DeviceRun::Attack() {
  if (flood_->sent() == kForgeries) return;
  const Place& place = AnyPlace();
  const Place& peer = AnyPlace();
  const auto self = [](const Place& of) {
    return testing::SelfOf(Switch::seen(*of.at), of.host->gid());
  };
  if (random_.OneIn(2)) return flood_->Syn(self(place));
  flood_->Forge(self(peer), self(place),
                static_cast<uint32_t>(sessions_.size()) * Session::kPorts);
}

void DeviceRun::CloseDoor() {
  Place& place = AnyPlace();
  if (place.door == nullptr) return OpenDoor(place);
  IwarpListener* const door = std::exchange(place.door, nullptr);
  place.host->WithToken([&] { place.table().Unlisten(door); });
}

void DeviceRun::LoseAddress() {
  if (++address_losses_ > kAddressLosses) return;
  EngineHost& host = *AnyPlace().host;
  host.WithToken([&] { host.SetAddress(false); });
  world_.After(Micros(random_.Below(3000000)),
               [&host] { host.WithToken([&] { host.SetAddress(true); }); });
}

// Announced or not.
void DeviceRun::Move() {
  if (++moves_ > kMoves) return;
  Place& place = AnyPlace();
  switch_.Move(*place.at);
  if (random_.OneIn(2)) return;
  switch_.Send(*place.at, testing::AnnounceFrame(testing::SelfOf(
                              Switch::seen(*place.at), place.host->gid())));
}

void DeviceRun::NarrowPath() {
  if (++narrowings_ > kNarrowings) return;
  if (random_.OneIn(2)) return switch_.Narrow(0, nullptr);
  const auto mtu =
      static_cast<uint32_t>((ipv6_ ? 1280 : 600) + random_.Below(mtu_ - 1280u));
  if (random_.OneIn(3)) return switch_.Narrow(mtu, nullptr);
  switch_.Narrow(mtu,
                 [this, mtu](const Frame& frame) { ReportTooBig(frame, mtu); });
}

void DeviceRun::ReportTooBig(const Frame& frame, uint32_t mtu) {
  wire::FrameView view;
  wire::TcpSegment segment;
  if (wire::ParseFrame(frame.data(), frame.size(), view) != RxVerdict::kTcp ||
      wire::ParseTcp(view, false, segment) != RxVerdict::kAccept) {
    return;
  }
  testing::TooBigFields report;
  report.router_mac = Flood::kMac;
  report.mac = view.eth->src;
  report.router = testing::GidOf(kRouter, ipv6_);
  report.to = report.quoted_src = view.src;
  report.quoted_dst = view.dst;
  report.mtu = mtu;
  report.packet_bytes = static_cast<uint16_t>(frame.size() - 14);
  report.segment = {wire::Be<uint16_t>(segment.src_port),
                    wire::Be<uint16_t>(segment.dst_port),
                    wire::Be<uint32_t>(segment.seq.value())};
  Frame answer = testing::TooBigFrame(report);
  AppendFcs(answer);
  switch_.Arrive(std::move(answer));
}

}  // namespace urnic::sim
