#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "verbs/cli/bar_chart.h"
#include "verbs/cli/child_process.h"
#include "verbs/cli/command.h"
#include "verbs/cli/demo_bed.h"
#include "verbs/cli/install_paths.h"
#include "verbs/cli/perftest_report.h"
#include "verbs/cli/qperf_report.h"

namespace urnic {
namespace {

using Clock = ChildProcess::Clock;

constexpr uint16_t kTcpPort = 18515;  // perftest's default
constexpr auto kServerTime = std::chrono::seconds(15);
constexpr auto kClientTime = std::chrono::seconds(60);
constexpr auto kLook = std::chrono::milliseconds(5);

enum class Figure { kLatency, kBandwidth, kRate };

// A line of the table.
struct Measurement {
  std::string program;
  std::string size;  // bytes
  // Repetitions per bed, because the beds differ in speed. ib_write_lat gets
  // fewer: it polls memory, and starves its peer on machines with few CPUs.
  std::string hosts_count;
  std::string memory_count;
  Figure figure;
};

const std::vector<Measurement>& Measurements() {
  static const auto* const list = new std::vector<Measurement>{
      {"ib_write_lat", "8", "500", "50000", Figure::kLatency},
      {"ib_send_lat", "8", "5000", "50000", Figure::kLatency},
      {"ib_read_lat", "8", "5000", "50000", Figure::kLatency},
      {"ib_atomic_lat", "8", "5000", "50000", Figure::kLatency},
      {"ib_write_bw", "8", "51200", "1024000", Figure::kRate},
      {"ib_write_bw", "65536", "2000", "20000", Figure::kBandwidth},
      {"ib_send_bw", "65536", "2000", "20000", Figure::kBandwidth},
      {"ib_read_bw", "65536", "2000", "20000", Figure::kBandwidth},
      {"ib_write_bw", "1048576", "200", "2000", Figure::kBandwidth},
      {"ib_read_bw", "1048576", "200", "2000", Figure::kBandwidth},
  };
  return *list;
}

struct Row {
  std::string test;
  std::string bed;
  std::string size;
  std::string result;
  std::string unit;
  double value = 0;  // 0: failed
};

// The kernel's TCP in the same place.
struct TcpRow {
  std::string bed;
  TcpReport report;
};

// A chart: a line of the table next to TCP's figure.
struct Comparison {
  std::string test;
  std::string size;
  double TcpReport::*tcp;
  std::string title;
};

const std::vector<Comparison>& Comparisons() {
  static const auto* const list = new std::vector<Comparison>{
      {"ib_send_lat", "8", &TcpReport::latency_us,
       "8-byte messages, half a round trip, us: shorter is better"},
      {"ib_write_bw", "8", &TcpReport::million_messages_per_second,
       "8-byte messages, millions a second: longer is better"},
      {"ib_write_bw", "65536", &TcpReport::gigabits_per_second,
       "64 KB messages, Gb/s: longer is better"},
  };
  return *list;
}

// One line that is rewritten on a terminal; plain lines otherwise.
class Progress {
 public:
  explicit Progress(size_t total)
      : total_(total), terminal_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() { Clear(); }

  void Step(const std::string& text) {
    ++done_;
    Clear();
    std::fprintf(stderr, "[%2zu/%zu] %s%s", done_, total_, text.c_str(),
                 terminal_ ? " ..." : "\n");
    std::fflush(stderr);
  }

 private:
  void Clear() const {
    if (terminal_) std::fputs("\r\033[K", stderr);
  }

  const size_t total_;
  const bool terminal_;
  size_t done_ = 0;
};

std::vector<std::string> ProgramOf(const Measurement& m, bool on_hosts,
                                   uint16_t tcp_port) {
  std::vector<std::string> words = {
      m.program, "-F",
      "-x",      "3",
      "-p",      absl::StrCat(tcp_port),
      "-n",      on_hosts ? m.hosts_count : m.memory_count};
  // ib_atomic_* has one size only and no option for it.
  if (m.program.find("atomic") == std::string::npos)
    words.insert(words.end(), {"-s", m.size});
  if (m.figure != Figure::kLatency) words.push_back("--report_gbits");
  if (m.figure == Figure::kRate)
    words.insert(words.end(), {"-l", "32", "-Q", "32"});
  return words;
}

absl::Status AwaitListener(const DemoBed& bed, ChildProcess& server,
                           uint16_t tcp_port) {
  const auto deadline = Clock::now() + kServerTime;
  while (!server.Listens(tcp_port, bed.server_namespace())) {
    if (!server.Running()) {
      absl::Status status = server.Wait(deadline);
      return status.ok() ? absl::AbortedError("the server ended immediately")
                         : status;
    }
    if (StopRequested()) return absl::CancelledError("interrupted");
    if (Clock::now() > deadline)
      return absl::DeadlineExceededError(
          absl::StrCat("the server does not listen after ", kServerTime.count(),
                       " s; the machine may be too busy"));
    std::this_thread::sleep_for(kLook);
  }
  return absl::OkStatus();
}

// Three digits, because the figures of two bars may be far apart.
std::string BarText(double figure) {
  char text[32];
  std::snprintf(text, sizeof(text), figure < 1000 ? "%.3g" : "%.0f", figure);
  return text;
}

// Runs server and client, and returns the client's output.
absl::StatusOr<std::string> RunPair(const DemoBed& bed,
                                    std::vector<std::string> program,
                                    uint16_t tcp_port) {
  auto server = ChildProcess::Start(bed.Command(0, program), "the server");
  if (!server.ok()) return server.status();
  if (absl::Status s = AwaitListener(bed, **server, tcp_port); !s.ok())
    return s;
  program.push_back(bed.server_address());
  auto client = ChildProcess::Start(bed.Command(1, program), "the client");
  if (!client.ok()) return client.status();
  const auto deadline = Clock::now() + kClientTime;
  if (absl::Status s = (*client)->Wait(deadline); !s.ok()) return s;
  if (absl::Status s = (*server)->Wait(deadline); !s.ok()) return s;
  return (*client)->Output();
}

// The same with qperf, on the hosts of the bed without their RNICs. Its server
// does not end by itself; it is killed here.
absl::StatusOr<TcpReport> RunTcp(const DemoBed& bed, uint16_t tcp_port) {
  const std::vector<std::string> listen = {"-lp", absl::StrCat(tcp_port)};
  std::vector<std::string> words = {"qperf"};
  words.insert(words.end(), listen.begin(), listen.end());
  auto server =
      ChildProcess::Start(bed.HostCommand(0, words), "the server of qperf");
  if (!server.ok()) return server.status();
  if (absl::Status s = AwaitListener(bed, **server, tcp_port); !s.ok())
    return s;
  words = {"qperf", bed.server_address()};
  words.insert(words.end(), listen.begin(), listen.end());
  for (const std::string& word : QperfTests()) words.push_back(word);
  auto client = ChildProcess::Start(bed.HostCommand(1, words), "qperf");
  if (!client.ok()) return client.status();
  if (absl::Status s = (*client)->Wait(Clock::now() + kClientTime); !s.ok())
    return s;
  return ReadTcpReport((*client)->Output());
}

absl::Status ReadResult(const Measurement& m, const std::string& output,
                        Row* row) {
  if (m.figure == Figure::kLatency) {
    const auto microseconds = ReadLatency(output);
    if (!microseconds.ok()) return microseconds.status();
    row->value = *microseconds;
    row->unit = "us";
  } else {
    const auto report = ReadBandwidth(output);
    if (!report.ok()) return report.status();
    const bool rate = m.figure == Figure::kRate;
    row->value = rate ? report->million_messages_per_second
                      : report->gigabits_per_second;
    row->unit = rate ? "M/s" : "Gb/s";
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", row->value);
  row->result = text;
  return absl::OkStatus();
}

struct BedKind {
  std::string name;
  bool on_hosts;
  std::function<absl::StatusOr<std::unique_ptr<DemoBed>>()> make;
};

std::vector<BedKind> BedKinds() {
  std::vector<BedKind> kinds;
  if (geteuid() == 0) kinds.push_back({"two hosts", true, DemoBed::MakeHosts});
  kinds.push_back({"shared memory", false, DemoBed::MakeSharedMemory});
  return kinds;
}

void PrintTable(const std::vector<Row>& rows) {
  std::printf("%-14s %-14s %10s %10s %s\n", "test", "between", "bytes",
              "result", "unit");
  for (const Row& row : rows) {
    std::printf("%-14s %-14s %10s %10s %s\n", row.test.c_str(), row.bed.c_str(),
                row.size.c_str(), row.result.c_str(), row.unit.c_str());
  }
  std::printf(
      "\n"
      "two hosts: network namespaces joined by a veth pair. Each packet "
      "passes\n"
      "the kernel's packet sockets.\n"
      "shared memory: two processes of one host (virtio_user and vhost).\n"
      "us: the typical value of half a round trip for write and send, and of "
      "a\n"
      "whole one for read and atomic. Same programs, same packets: RoCEv2.\n");
}

// Bars of uRNIC and TCP for the tests where both have figures.
void PrintCharts(const std::vector<Row>& rows,
                 const std::vector<TcpRow>& tcp_rows) {
  const ChartStyle style = StyleOf(STDOUT_FILENO);
  std::printf(
      "\nuRNIC compared with the kernel's TCP. Each pair has its own scale.\n");
  for (const Comparison& c : Comparisons()) {
    BarChart chart{.title = c.title, .bars = {}};
    for (const TcpRow& tcp : tcp_rows) {
      for (const Row& row : rows) {
        if (row.bed != tcp.bed || row.test != c.test || row.size != c.size ||
            row.value <= 0)
          continue;
        const double other = tcp.report.*c.tcp;
        chart.bars.push_back(
            {row.bed, "uRNIC", row.value, BarText(row.value), true});
        chart.bars.push_back({row.bed, "TCP", other, BarText(other)});
      }
    }
    std::printf("\n%s", DrawChart(chart, style).c_str());
  }
  std::printf(
      "\nTCP is measured by qperf, with messages of the same size, in the "
      "same\n"
      "place: between two hosts through the same veth pair, whose offloads "
      "are\n"
      "off for both; for shared memory over the loopback interface, with\n"
      "all of the kernel's shortcuts. Both write 8-byte messages in bulk, and\n"
      "the kernel joins them to long packets; uRNIC sends a packet for each.\n"
      "perftest polls, and qperf sleeps until data comes.\n");
}

// Says what the demo needs and does not find. False: nothing is missing.
bool IsAnythingMissing() {
  bool missing = false;
  const auto say = [&](const char* text) {
    std::fprintf(stderr, "urnic demo: %s\n", text);
    missing = true;
  };
  for (const Measurement& m : Measurements()) {
    if (!IsInstalled(m.program)) {
      say("perftest is not installed: apt install perftest");
      break;
    }
  }
  if (geteuid() == 0) {
    if (!IsInstalled("ip")) say("ip is not installed: apt install iproute2");
    if (!IsInstalled("ethtool"))
      say("ethtool is not installed: apt install ethtool");
  }
  const auto paths = FindInstallPaths();
  if (!paths.ok()) say(std::string(paths.status().message()).c_str());
  return missing;
}

struct Results {
  std::vector<Row> rows;
  std::vector<TcpRow> tcp_rows;
  std::vector<std::string> problems;
};

// Runs everything on one bed. Stops at CANCELLED; other failures are reported
// in `results`.
absl::Status RunOn(const BedKind& kind, bool with_tcp, Progress* progress,
                   Results* results) {
  const auto bed = kind.make();
  if (absl::IsCancelled(bed.status())) return bed.status();
  if (!bed.ok()) {
    results->problems.push_back(absl::StrCat(
        kind.name,
        ": cannot be set up: ", std::string(bed.status().message())));
    return absl::OkStatus();
  }
  const uint16_t tcp_port =
      geteuid() == 0 ? kTcpPort
                     : static_cast<uint16_t>(kTcpPort + getpid() % 10000);
  for (const Measurement& m : Measurements()) {
    progress->Step(
        absl::StrCat(kind.name, ": ", m.program, ", ", m.size, " bytes"));
    Row row{m.program, kind.name, m.size, "failed", ""};
    const auto output =
        RunPair(**bed, ProgramOf(m, kind.on_hosts, tcp_port), tcp_port);
    absl::Status status = output.status();
    if (absl::IsCancelled(status)) return status;
    if (status.ok()) status = ReadResult(m, *output, &row);
    if (!status.ok())
      results->problems.push_back(absl::StrCat(kind.name, ": ", m.program, ": ",
                                               std::string(status.message())));
    results->rows.push_back(row);
  }
  if (!with_tcp) return absl::OkStatus();
  progress->Step(absl::StrCat(kind.name, ": TCP, by qperf"));
  const auto report = RunTcp(**bed, tcp_port);
  if (absl::IsCancelled(report.status())) return report.status();
  if (report.ok()) {
    results->tcp_rows.push_back({kind.name, *report});
  } else {
    results->problems.push_back(absl::StrCat(
        kind.name, ": TCP: ", std::string(report.status().message())));
  }
  return absl::OkStatus();
}

int Demo() {
  if (IsAnythingMissing()) return kExitFailed;
  if (geteuid() != 0)
    std::fputs(
        "urnic demo: not root: only the part over shared memory runs; the part "
        "between two hosts needs root\n",
        stderr);
  CatchStopSignals();
  for (const DeadBed& bed : FindDeadBeds()) (void)RemoveDeadBed(bed);
  const std::vector<BedKind> kinds = BedKinds();
  const bool with_tcp = IsInstalled("qperf");
  Results results;
  absl::Status status;
  {
    Progress progress(kinds.size() *
                      (Measurements().size() + (with_tcp ? 1 : 0)));
    for (const BedKind& kind : kinds) {
      status = RunOn(kind, with_tcp, &progress, &results);
      if (!status.ok()) break;
    }
  }
  if (!status.ok()) {
    std::fputs(
        "urnic demo: interrupted; all namespaces and files were removed\n",
        stderr);
    return 128 + StopSignal();
  }
  PrintTable(results.rows);
  if (!with_tcp) {
    std::printf(
        "\nno comparison with TCP: qperf is not installed; apt install "
        "qperf\n");
  } else if (!results.tcp_rows.empty()) {
    PrintCharts(results.rows, results.tcp_rows);
  }
  for (const std::string& text : results.problems)
    std::fprintf(stderr, "urnic demo: %s\n", text.c_str());
  return results.problems.empty() ? kExitOk : kExitFailed;
}

}  // namespace

void AddDemoCommand(Command& urnic) {
  Command& command = urnic.AddSubcommand(
      "demo", "Run perftest between two hosts that this command creates", Demo);
  command.SetFooter(
      "Creates two network namespaces (as root) and a pair of processes that "
      "share memory, and runs perftest on both. If qperf is installed, also "
      "measures the kernel's TCP and draws bars. Removes everything again. "
      "Takes half a minute on an idle machine. The exit status is 1 if a test "
      "fails.");
}

}  // namespace urnic
