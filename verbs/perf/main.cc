// urnic-perf: rates and latencies of RUD between two programs. `urnic perf`
// starts it with an RNIC.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "verbs/cli/command_line.h"
#include "verbs/perf/end.h"
#include "verbs/perf/exchange.h"
#include "verbs/perf/measure.h"

namespace urnic::perf {
namespace {

struct Options {
  std::string host;
  std::string test = "write";
  uint64_t bytes = 0;  // 0: the test's default
  bool all_sizes = false;
  double seconds = 2;
  uint32_t depth = 0;  // 0: see DepthFor()
  uint32_t paths = 0;
  uint32_t lanes = 0;
  int tcp_port = 18516;
  bool loopback = false;
};

struct Test {
  const char* name;
  Operation operation;
  bool is_latency;
  const char* what;
};
constexpr Test kTests[] = {
    {"write", Operation::kWrite, false, "rate of writes"},
    {"read", Operation::kRead, false, "rate of reads"},
    {"send", Operation::kSend, false, "rate of messages"},
    {"write-lat", Operation::kWrite, true,
     "latency of a write until its completion"},
    {"read-lat", Operation::kRead, true, "latency of a read"},
    {"send-lat", Operation::kSend, true, "latency of a message, one way"},
};

// The client's last message: all its operations have ended.
constexpr uint8_t kDone = 1;

const Test* FindTest(const std::string& name) {
  for (const Test& test : kTests)
    if (name == test.name) return &test;
  return nullptr;
}

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "urnic-perf: %.*s\n",
               static_cast<int>(status.message().size()),
               status.message().data());
  return 1;
}

std::vector<uint64_t> SizesOf(const Options& options) {
  if (!options.all_sizes) return {options.bytes != 0 ? options.bytes : 8};
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = 8; bytes <= 1u << 20; bytes *= 2)
    sizes.push_back(bytes);
  return sizes;
}

uint64_t MemoryFor(const std::vector<uint64_t>& sizes) {
  constexpr uint64_t kLeast = 16u << 20;
  return std::max(kLeast, sizes.back());
}

// Without a wish: many, but not so many bytes that the last ones come late.
uint32_t DepthFor(const Options& options, uint64_t bytes) {
  constexpr uint64_t kBytes = 16u << 20;
  constexpr uint64_t kMost = 512;
  if (options.depth != 0) return options.depth;
  return static_cast<uint32_t>(std::clamp<uint64_t>(kBytes / bytes, 2, kMost));
}

void PrintRate(uint64_t bytes, const RateResult& result) {
  const double rate = static_cast<double>(result.operations) / result.seconds;
  std::printf(" %-10llu %-14llu %-20.2f %-14.6f\n",
              static_cast<unsigned long long>(bytes),
              static_cast<unsigned long long>(result.operations),
              rate * static_cast<double>(bytes) * 8 / 1e9, rate / 1e6);
  std::fflush(stdout);
}

void PrintLatency(uint64_t bytes, const LatencyResult& result) {
  std::printf(" %-10llu %-14llu %-12.2f %-12.2f %-12.2f %-12.2f %-12.2f\n",
              static_cast<unsigned long long>(bytes),
              static_cast<unsigned long long>(result.rounds), result.minimum,
              result.median, result.p99, result.p999, result.maximum);
  std::fflush(stdout);
}

void PrintHeader(const Test& test, const End& end) {
  std::printf("RUD %s, %zu NIC%s\n", test.what, end.nics(),
              end.nics() == 1 ? "" : "s");
  if (test.is_latency) {
    std::printf(
        " #bytes     #rounds        min[us]      median[us]   99%%[us]      "
        "99.9%%[us]    max[us]\n");
  } else {
    std::printf(
        " #bytes     #operations    BW average[Gb/s]     MsgRate[Mpps]\n");
  }
  std::fflush(stdout);
}

// Where the units went, and what was sent again.
void PrintPaths(const End& end) {
  urnic_ep_path paths[512];
  uint32_t count = std::size(paths);
  if (urnic_ep_query_paths(end.endpoint(), end.peer(), paths, &count) != 0)
    return;
  std::printf(
      " path (NIC-peer's.flow)  units          RTT[us]    window[packets]\n");
  for (const urnic_ep_path& path :
       std::span(paths, std::min<size_t>(count, std::size(paths)))) {
    std::printf(" %u-%u.%-19u %-14llu %-10.1f %u%s\n", path.nic, path.peer_nic,
                path.path, static_cast<unsigned long long>(path.units),
                path.round_trip_ns / 1e3, path.window,
                path.is_dead != 0 ? "  dead" : "");
  }
  urnic_ep_stats stats;
  if (urnic_ep_query_stats(end.endpoint(), &stats) != 0) return;
  std::printf(
      " units %llu, packets sent again %llu, time-outs %llu, dead paths %llu\n",
      static_cast<unsigned long long>(stats.units),
      static_cast<unsigned long long>(stats.packets_again),
      static_cast<unsigned long long>(stats.time_outs),
      static_cast<unsigned long long>(stats.dead_paths));
}

absl::Status Measure(const Options& options, const Test& test, End& end,
                     const std::function<absl::Status()>& also) {
  PrintHeader(test, end);
  for (const uint64_t bytes : SizesOf(options)) {
    if (test.is_latency) {
      const auto result =
          MeasureLatency(end, test.operation, bytes, options.seconds, also);
      if (!result.ok()) return result.status();
      PrintLatency(bytes, *result);
    } else {
      const auto result =
          MeasureRate(end, test.operation, bytes, DepthFor(options, bytes),
                      options.seconds, also);
      if (!result.ok()) return result.status();
      PrintRate(bytes, *result);
    }
  }
  PrintPaths(end);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<End>> OpenWithMemory(const EndOptions& options,
                                                    uint64_t bytes) {
  auto end = End::Open(options);
  if (!end.ok()) return end.status();
  if (absl::Status s = (*end)->ProvideMemory(bytes); !s.ok()) return s;
  return end;
}

// Both ends in this program, run by one thread.
absl::Status RunLoopback(const Options& options, const Test& test,
                         const EndOptions& end_options) {
  const uint64_t bytes = MemoryFor(SizesOf(options));
  auto client = OpenWithMemory(end_options, bytes);
  if (!client.ok()) return client.status();
  auto server = OpenWithMemory(end_options, bytes);
  if (!server.ok()) return server.status();
  const auto of_client = (*client)->Introduction();
  if (!of_client.ok()) return of_client.status();
  const auto of_server = (*server)->Introduction();
  if (!of_server.ok()) return of_server.status();
  if (absl::Status s = (*client)->Meet(*of_server); !s.ok()) return s;
  if (absl::Status s = (*server)->Meet(*of_client); !s.ok()) return s;
  Server serving(**server, test.is_latency);
  return Measure(options, test, **client, [&] { return serving.Serve(); });
}

// The client says what is tested: the first byte is the number of the test.
absl::Status RunClient(const Options& options, const Test& test,
                       const EndOptions& end_options) {
  const uint64_t bytes = MemoryFor(SizesOf(options));
  auto end = OpenWithMemory(end_options, bytes);
  if (!end.ok()) return end.status();
  auto exchange = Exchange::Connect(options.host, options.tcp_port);
  if (!exchange.ok()) return exchange.status();
  auto introduction = (*end)->Introduction();
  if (!introduction.ok()) return introduction.status();
  introduction->insert(introduction->begin(),
                       static_cast<uint8_t>(&test - kTests));
  uint8_t memory[sizeof(bytes)];
  std::memcpy(memory, &bytes, sizeof(memory));
  introduction->insert(introduction->begin(), memory, memory + sizeof(memory));
  if (absl::Status s = exchange->Send(*introduction); !s.ok()) return s;
  const auto of_server = exchange->Receive();
  if (!of_server.ok()) return of_server.status();
  if (absl::Status s = (*end)->Meet(*of_server); !s.ok()) return s;
  uint32_t calls = 0;
  const absl::Status status = Measure(options, test, **end, [&] {
    constexpr uint32_t kCallsPerLook = 4096;
    return ++calls % kCallsPerLook == 0 && exchange->HasNews()
               ? absl::UnavailableError("the server has ended")
               : absl::OkStatus();
  });
  if (!status.ok()) return status;
  return exchange->Send({kDone});
}

absl::Status RunServer(const Options& options, const EndOptions& end_options) {
  // What is refused is better refused before a client has come.
  auto end = End::Open(end_options);
  if (!end.ok()) return end.status();
  std::printf("waiting for a client on TCP port %d\n", options.tcp_port);
  std::fflush(stdout);
  auto exchange = Exchange::Listen(options.tcp_port);
  if (!exchange.ok()) return exchange.status();
  const auto introduction = exchange->Receive();
  if (!introduction.ok()) return introduction.status();
  constexpr size_t kPrefix = sizeof(uint64_t) + 1;
  constexpr uint64_t kMostMemory = uint64_t{1} << 32;
  uint64_t bytes = 0;
  if (introduction->size() > kPrefix)
    std::memcpy(&bytes, introduction->data(), sizeof(bytes));
  if (introduction->size() <= kPrefix ||
      (*introduction)[kPrefix - 1] >= std::size(kTests) || bytes == 0 ||
      bytes > kMostMemory) {
    return absl::InvalidArgumentError("the other end is not urnic-perf");
  }
  const Test& test = kTests[(*introduction)[kPrefix - 1]];
  if (absl::Status s = (*end)->ProvideMemory(bytes); !s.ok()) return s;
  if (absl::Status s =
          (*end)->Meet({introduction->begin() + kPrefix, introduction->end()});
      !s.ok()) {
    return s;
  }
  const auto own = (*end)->Introduction();
  if (!own.ok()) return own.status();
  if (absl::Status s = exchange->Send(*own); !s.ok()) return s;
  std::printf("RUD %s\n", test.what);
  std::fflush(stdout);
  Server server(**end, test.is_latency);
  constexpr uint32_t kPollsPerLook = 4096;
  for (uint32_t polls = 1;; ++polls) {
    if (absl::Status s = server.Serve(); !s.ok()) return s;
    // The client has ended, which it does when its last operation has.
    if (polls % kPollsPerLook == 0 && exchange->HasNews()) break;
  }
  const auto last = exchange->Receive();
  if (!last.ok() || *last != std::vector<uint8_t>{kDone})
    return absl::UnavailableError("the client ended before its test did");
  PrintPaths(**end);
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  if (!std::isfinite(options.seconds))
    return absl::InvalidArgumentError("--seconds must be a number");
  if (options.loopback && !options.host.empty())
    return absl::InvalidArgumentError("--loopback has no HOST: it is its own");
  if (options.all_sizes && options.bytes != 0)
    return absl::InvalidArgumentError("--all and --bytes are two wishes");
  const Test* const test = FindTest(options.test);
  if (test == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--test ", options.test,
        " is unknown: write, read, send, write-lat, read-lat or send-lat"));
  }
  const EndOptions end_options = {.paths = options.paths,
                                  .lanes = options.lanes};
  if (options.loopback) return RunLoopback(options, *test, end_options);
  if (!options.host.empty()) return RunClient(options, *test, end_options);
  return RunServer(options, end_options);
}

}  // namespace
}  // namespace urnic::perf

int main(int argc, char** argv) {
  using urnic::perf::Options;
  Options options;
  urnic::CommandLine line("urnic-perf",
                          "Rates and latencies between two programs",
                          urnic::CommandLine::Words::kOfCli11);
  urnic::Command& rud = line.AddSubcommand(
      "rud", "RUD: reliable, unordered RDMA over unreliable datagrams", [&] {
        const absl::Status status = urnic::perf::Run(options);
        return status.ok() ? 0 : urnic::perf::Complain(status);
      });
  rud.AddOption("HOST", &options.host,
                "The server, by its name for the kernel's TCP; without it this "
                "is the server");
  rud.AddOption("--test", &options.test,
                "write, read, send (rates), write-lat, read-lat, send-lat; the "
                "client chooses",
                {.shows_default = true});
  rud.AddOption("--bytes", &options.bytes, "Of an operation (default 8)",
                {.range = {1, 1u << 30}});
  rud.AddOption("--all", &options.all_sizes, "Sizes from 8 bytes to 1 MB");
  rud.AddOption("--seconds", &options.seconds, "For each size",
                {.range = {0.01, 3600}, .shows_default = true});
  rud.AddOption("--depth", &options.depth,
                "Operations under way (default 512, 16 MB at most)",
                {.range = {1, 4096}});
  rud.AddOption("--paths", &options.paths,
                "UDP flows between two NICs (default 4)", {.range = {1, 8}});
  rud.AddOption("--lanes", &options.lanes,
                "Units of up to 16 packets under way (default 64)",
                {.range = {1, 4096}});
  rud.AddOption("--tcp-port", &options.tcp_port, "Where client and server meet",
                {.type = "UINT", .range = {1, 65535}, .shows_default = true});
  rud.AddOption("--loopback", &options.loopback,
                "Both ends in this program, for one port");
  return line.Run({argv + 1, argv + argc});
}
