// rud_goodput [--seeds=A..B]: measures the goodput of RUD's upper layer over
// four paths with different delays, in virtual time, with eight 1 MB operations
// at a time, and how reordering, losses and the death of a path reduce it.
// Fails if the median over the seeds is too low, or a dead path stalls an
// operation for too long.

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <vector>

#include "tests/sim/rud/rud_net.h"
#include "tests/sim/seeds.h"
#include "tests/support/counts.h"
#include "transport/mem/mr_table.h"
#include "transport/rud/upper/endpoint.h"

namespace urnic::sim {
namespace {

using rud::upper::Endpoint;
using rud::upper::Event;

constexpr uint32_t kJob = 3;
constexpr uint32_t kRights =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;
constexpr uint64_t kBytes = 1 << 20;  // of an operation
constexpr uint32_t kDepth = 8;
constexpr int64_t kDelaysUs[] = {10, 100, 250, 500};
constexpr uint64_t kPathRate = 2'500'000'000;
constexpr uint32_t kPacketBytes = 1024;

enum class Kind : uint8_t { kWrite, kRead, kSend };

struct Case {
  const char* name;
  uint32_t loss_ppm = 0;
  uint32_t reorder_ppm = 0;
  double at_least = 0;  // as a part of the first case
  bool path_dies = false;
};

struct Result {
  double gigabits = 0;
  Duration longest;  // of an operation
  Duration gap;      // longest time in which no operation ended
};

class GoodputRun {
 public:
  GoodputRun(const Case& of, Kind kind, uint64_t seed)
      : case_(of), kind_(kind) {
    net_ = std::make_unique<RudNet>(
        &world_, seed,
        [this](uint32_t, uint32_t, uint8_t path) { return MakeLink(path); });
    net_->lazy_us = 1;
    for (uint32_t i = 0; i < 2; ++i) Boot(i);
    for (uint32_t i = 0; i < 2; ++i) {
      peers_[i] =
          endpoints_[i]->AddPeer(world_.now(), endpoints_[1 - i]->Address());
      endpoints_[i]->Flush();
    }
  }

  Result Run() {
    // In the first tenth, congestion windows grow.
    constexpr auto kAll = Duration::Milliseconds(400);
    begin_ = world_.now() + Duration::Milliseconds(40);
    last_ = begin_;
    const Time end = world_.now() + kAll;
    if (case_.path_dies) {
      world_.At(world_.now() + Duration::Milliseconds(200),
                [this] { net_->SetPathDead(1, 2, 0, true); });
    }
    for (uint32_t i = 0; i < kDepth; ++i) Begin(i);
    Poll(0);
    Poll(1);
    world_.RunUntil(end);
    Result result;
    result.gigabits = static_cast<double>(done_ * kBytes * 8) /
                      static_cast<double>((end - begin_).ns());
    result.longest = longest_;
    result.gap = gap_;
    return result;
  }
  const Endpoint& endpoint() const { return *endpoints_[0]; }

 private:
  LinkConfig MakeLink(uint8_t path) const {
    LinkConfig link;
    link.delay = Duration::Microseconds(kDelaysUs[path]);
    link.bits_per_second = kPathRate;
    link.buffer_bytes = 1 << 20;
    link.loss_ppm = case_.loss_ppm;
    link.reorder_ppm = case_.reorder_ppm;
    // A reordered packet is late by up to the delay of the path.
    link.reorder_by = link.delay;
    return link;
  }

  void Boot(uint32_t i) {
    testing::RudEndConfig config;
    config.contexts = 600;
    config.tces = 1024;
    config.receive_entries = 1024;
    config.seed = i + 1;
    config.window = {.number = i + 1, .job = kJob, .key = 0x1234};
    config.address = RudAddressOf(i + 1);
    nics_[i] =
        std::make_unique<RudNic>(net_.get(), i + 1, config, kPacketBytes);
    memory_[i].resize(kBytes);
    pvos_[i] = *nics_[i]->end().tces().Register(
        kJob, reinterpret_cast<uint64_t>(memory_[i].data()), kBytes, kRights,
        rud::PageSize::k4K);
    nics_[i]->on_entries = [this, i] { Wake(i, world_.now()); };
    rud::upper::Adapter* adapter = nics_[i].get();
    rud::upper::EndpointConfig upper;
    upper.lanes = 128;
    endpoints_[i] = std::make_unique<Endpoint>(
        upper, std::span<rud::upper::Adapter* const>(&adapter, 1), i + 1);
  }

  void Begin(uint32_t i) {
    began_[i] = world_.now();
    Endpoint& endpoint = *endpoints_[0];
    switch (kind_) {
      case Kind::kWrite:
        endpoint.Write(world_.now(), peers_[0], pvos_[0].value, pvos_[1].value,
                       kBytes, i);
        break;
      case Kind::kRead:
        endpoint.Read(world_.now(), peers_[0], pvos_[0].value, pvos_[1].value,
                      kBytes, i);
        break;
      case Kind::kSend:
        endpoint.Send(world_.now(), peers_[0], pvos_[0].value, kBytes, i);
        break;
    }
  }

  void Wake(uint32_t i, Time when) {
    if (when >= wakes_[i]) return;
    wakes_[i] = when;
    world_.At(when, [this, i, when] {
      if (wakes_[i] == when) Poll(i);
    });
  }

  void Poll(uint32_t i) {
    wakes_[i] = Time::Infinite();
    std::vector<Event> events(64);
    uint32_t count = 0;
    do {
      count = endpoints_[i]->Poll(world_.now(), events);
      for (uint32_t j = 0; j < count; ++j) OnEvent(events[j]);
    } while (count == events.size());
    endpoints_[i]->Flush();
    const Time next = endpoints_[i]->next_deadline();
    if (!next.IsInfinite())
      Wake(i, std::max(next, world_.now() + Duration::Nanoseconds(100)));
  }

  void OnEvent(const Event& event) {
    if (event.type != rud::upper::EventType::kDone) return;
    Require(event.status == rud::upper::Status::kOk, "an operation fails");
    if (world_.now() >= begin_) {
      ++done_;
      longest_ = std::max(longest_, world_.now() - began_[event.user]);
      gap_ = std::max(gap_, world_.now() - last_);
      last_ = world_.now();
    }
    Begin(static_cast<uint32_t>(event.user));
  }

  const Case case_;
  const Kind kind_;
  World world_;
  std::unique_ptr<RudNet> net_;
  std::vector<uint8_t> memory_[2];
  rud::Pvo pvos_[2];
  std::unique_ptr<RudNic> nics_[2];
  std::unique_ptr<Endpoint> endpoints_[2];
  uint32_t peers_[2] = {};
  Time wakes_[2] = {Time::Infinite(), Time::Infinite()};
  Time began_[kDepth];
  Time begin_;
  Time last_;
  uint64_t done_ = 0;
  Duration longest_;
  Duration gap_;
};

double Us(Duration duration) {
  return static_cast<double>(duration.ns()) / 1000;
}

// The results of all seeds for one kind and case.
struct Row {
  std::vector<double> gigabits;
  std::vector<double> ratios;  // to the first case with the same seed
  Duration longest;
  Duration gap;
  bool stalled = false;
  rud::upper::UpperStats stats;
};

double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void Print(const char* kind, const Case& of, const Row& row) {
  const auto [least, most] = std::ranges::minmax(row.ratios);
  std::printf(
      "%-8s %-15s %6.2f Gb/s %5.1f %% (%.1f to %.1f)  longest %6.0f us  gap "
      "%6.0f us  asked %" PRIu64 " early %" PRIu64 " again %" PRIu64
      " time-outs %" PRIu64 "\n",
      kind, of.name, MedianOf(row.gigabits), 100 * MedianOf(row.ratios),
      100 * least, 100 * most, Us(row.longest), Us(row.gap), row.stats.asked,
      row.stats.early, row.stats.packets_again, row.stats.time_outs);
}

// Returns how many cases miss their goal.
int RunKind(Kind kind, const char* name, const Seeds& seeds) {
  const Case cases[] = {
      {.name = "without faults"},
      {.name = "5 % reordered", .reorder_ppm = 50'000, .at_least = 0.95},
      {.name = "0.1 % lost", .loss_ppm = 1'000, .at_least = 0.95},
      {.name = "1 % lost", .loss_ppm = 10'000, .at_least = 0.85},
      {.name = "a path dies", .path_dies = true},
  };
  std::vector<Row> rows(std::size(cases));
  for (uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    double best = 0;
    Duration usual;
    for (size_t i = 0; i < rows.size(); ++i) {
      GoodputRun run(cases[i], kind, seed);
      const Result result = run.Run();
      if (i == 0) {
        best = result.gigabits;
        usual = result.longest;
      }
      Row& row = rows[i];
      row.gigabits.push_back(result.gigabits);
      row.ratios.push_back(result.gigabits / best);
      row.longest = std::max(row.longest, result.longest);
      row.gap = std::max(row.gap, result.gap);
      // One round trip, and the time after which a path counts as dead.
      row.stalled |= cases[i].path_dies &&
                     result.longest > usual + Duration::Milliseconds(51);
      testing::AddCounts(row.stats, run.endpoint().stats());
    }
  }
  int missed = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    Print(name, cases[i], rows[i]);
    if (MedianOf(rows[i].ratios) >= cases[i].at_least && !rows[i].stalled)
      continue;
    std::printf("  that is not enough\n");
    ++missed;
  }
  return missed;
}

int Main(int argc, char** argv) {
  Seeds seeds{.last = 5};
  if (!ParseSeeds("rud_goodput", argc, argv, seeds)) return 2;
  const int missed = RunKind(Kind::kWrite, "write", seeds) +
                     RunKind(Kind::kRead, "read", seeds) +
                     RunKind(Kind::kSend, "message", seeds);
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace urnic::sim

int main(int argc, char** argv) { return urnic::sim::Main(argc, argv); }
