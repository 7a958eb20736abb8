// Rates and latencies through the verbs, without perftest: what a program
// written for speed gets. Prints one line of JSON (the client's side).
//
//   urnic run ... -- verbs_bench TEST --server SOCKET [options]
//   urnic run ... -- verbs_bench TEST --client SOCKET [options]
//   urnic run --port loop ... -- verbs_bench TEST [options]     one process
//
// TEST: write_bw, write_lat (polls memory, calls no verb), read_lat, send_lat,
// check (moves random data by all operations and compares it), many_qps,
// registration (verbs_tests.h).
// SOCKET is a unix socket over which the two sides exchange addresses.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "bench/verbs_endpoint.h"
#include "bench/verbs_tests.h"

namespace urnic::bench {
namespace {

[[noreturn]] void Usage(const char* problem) {
  std::fprintf(stderr,
               "verbs_bench: %s\n"
               "usage: verbs_bench write_bw|write_lat|read_lat|send_lat|\n"
               "                   many_qps|registration|check\n"
               "  --server SOCKET | --client SOCKET   (neither: one process)\n"
               "  --device NAME  --gid-index N  --mtu BYTES  --size BYTES\n"
               "  --seconds S  --depth N  --post-list N  --cq-mod N\n"
               "  --thread-domain  --server-polls  --qps N  --qp-depth N\n"
               "  --bulk BYTES\n",
               problem);
  std::exit(2);
}

uint32_t Number(const char* option, const char* text, uint32_t max) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value > max) {
    Usage((std::string(option) + " " + text + ": not a number up to " +
           std::to_string(max))
              .c_str());
  }
  return static_cast<uint32_t>(value);
}

BenchOptions Parse(int argc, char** argv) {
  BenchOptions o;
  if (argc < 2) Usage("no test given");
  o.test = argv[1];
  const std::map<std::string, std::pair<uint32_t*, uint32_t>> numbers = {
      {"--gid-index", {&o.gid_index, 255}},
      {"--mtu", {&o.mtu, 4096}},
      {"--size", {&o.size, 1u << 30}},
      {"--seconds", {&o.seconds, 3600}},
      {"--depth", {&o.depth, 16384}},
      {"--post-list", {&o.post_list, 1024}},
      {"--cq-mod", {&o.cq_mod, 1024}},
      {"--bulk", {&o.bulk, 1u << 30}},
      {"--qps", {&o.qps, 1u << 16}},
      {"--qp-depth", {&o.qp_depth, 16384}}};
  const std::map<std::string, std::string*> words = {{"--server", &o.server},
                                                     {"--client", &o.client},
                                                     {"--device", &o.device}};
  const std::map<std::string, bool*> flags = {
      {"--thread-domain", &o.thread_domain},
      {"--server-polls", &o.server_polls}};
  for (int i = 2; i < argc; ++i) {
    const std::string arg = argv[i];
    if (const auto flag = flags.find(arg); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    if (i + 1 == argc)
      Usage((arg + ": unknown option, or its value is missing").c_str());
    const char* value = argv[++i];
    if (const auto number = numbers.find(arg); number != numbers.end()) {
      *number->second.first = Number(argv[i - 1], value, number->second.second);
    } else if (const auto word = words.find(arg); word != words.end()) {
      *word->second = value;
    } else {
      Usage((arg + ": unknown").c_str());
    }
  }
  if (o.post_list == 0 || o.cq_mod == 0 || o.depth < o.post_list ||
      o.depth < o.cq_mod || o.seconds == 0) {
    Usage(
        "--post-list, --cq-mod and --seconds are at least 1, and --depth "
        "holds a list");
  }
  return o;
}

}  // namespace
}  // namespace urnic::bench

int main(int argc, char** argv) {
  using namespace urnic::bench;
  const BenchOptions options = Parse(argc, argv);
  const auto tests = Tests();
  const auto test = tests.find(options.test);
  if (test == tests.end()) Usage((options.test + ": unknown test").c_str());
  Pair pair(options);
  test->second(pair, options);
  return 0;
}
