// The cost of objects: many queue pairs, and memory regions.

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "bench/verbs_tests.h"
#include "bench/write_stream.h"

namespace urnic::bench {
namespace {

// The memory of this process, including huge pages.
double MemoryMb() {
  double kb = 0;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double value = 0;
    if (word == "VmRSS:" || word == "HugetlbPages:") status >> value;
    kb += value;
  }
  return kb / 1024;
}

// The average duration of `count` calls, in microseconds.
double Average(size_t count, const std::function<void(size_t)>& call) {
  const int64_t start = NowNs();
  for (size_t i = 0; i < count; ++i) call(i);
  return static_cast<double>(NowNs() - start) / 1e3 /
         static_cast<double>(count);
}

// Both rates, measured alternately, so that changes on the machine affect both.
struct Rates {
  double one;
  double many;
};
Rates Compare(Endpoint& here, std::span<ibv_qp* const> qps, BenchOptions o) {
  constexpr uint32_t kTurns = 3;
  o.seconds = std::max(1u, o.seconds / kTurns);
  ibv_qp* const first[] = {here.qp()};
  std::vector<double> one, many;
  for (uint32_t i = 0; i < kTurns; ++i) {
    one.push_back(StreamWrites(here, first, o).mops);
    many.push_back(StreamWrites(here, qps, o).mops);
  }
  std::sort(one.begin(), one.end());
  std::sort(many.begin(), many.end());
  return {one[kTurns / 2], many[kTurns / 2]};
}

}  // namespace

void ManyQps(Pair& pair, const BenchOptions& o) {
  errno = 0;
  if (pair.in_one_process()) Die("many_qps: needs two processes");
  Endpoint& here = pair.here();
  const double before_mb = MemoryMb();
  std::vector<ibv_qp*> qps(o.qps);
  const double create_us = Average(o.qps, [&](size_t i) {
    qps[i] = MakeQp(here.pd(), here.cq(), o.qp_depth);
  });
  std::vector<uint32_t> mine(o.qps), theirs(o.qps);
  for (size_t i = 0; i < qps.size(); ++i) mine[i] = qps[i]->qp_num;
  pair.Exchange(mine.data(), theirs.data(), mine.size() * sizeof(mine[0]));
  const double connect_us =
      Average(o.qps, [&](size_t i) { here.ConnectMore(qps[i], theirs[i]); });
  pair.Barrier();
  const double idle_mb = MemoryMb();
  Rates lists = {}, singles = {};
  if (!pair.is_server()) {
    lists = Compare(here, qps, o);
    BenchOptions single = o;
    single.post_list = single.cq_mod = 1;
    singles = Compare(here, qps, single);
  }
  pair.Barrier(pair.is_server() && o.server_polls);
  const double used_mb = MemoryMb();
  const double destroy_us =
      Average(o.qps, [&](size_t i) { ibv_destroy_qp(qps[i]); });
  const auto bytes_each = [&](double mb) {
    return (mb - before_mb) * 1048576 / o.qps;
  };
  if (!pair.is_server()) {
    std::printf(
        "{\"test\": \"many_qps\", \"qps\": %u, \"size\": %u, "
        "\"post_list\": %u, \"one_mops\": %.4f, \"many_mops\": %.4f, "
        "\"single_one_mops\": %.4f, \"single_many_mops\": %.4f, "
        "\"process_mb\": %.1f, \"idle_bytes_each\": %.0f, "
        "\"used_bytes_each\": %.0f, \"create_us\": %.2f, "
        "\"connect_us\": %.2f, \"destroy_us\": %.2f}\n",
        o.qps, o.size, o.post_list, lists.one, lists.many, singles.one,
        singles.many, used_mb, bytes_each(idle_mb), bytes_each(used_mb),
        create_us, connect_us, destroy_us);
  }
  pair.Barrier();
}

namespace {

constexpr int kPlain = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

struct CallTimes {
  double begin_us;
  double end_us;
};

// The medians of two calls, the second of which reverts the first.
CallTimes TimePair(size_t count, const std::function<void()>& begin,
                   const std::function<void()>& end) {
  std::vector<double> begins(count), ends(count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t start = NowNs();
    begin();
    const int64_t middle = NowNs();
    end();
    ends[i] = static_cast<double>(NowNs() - middle) / 1e3;
    begins[i] = static_cast<double>(middle - start) / 1e3;
  }
  std::sort(begins.begin(), begins.end());
  std::sort(ends.begin(), ends.end());
  return {begins[count / 2], ends[count / 2]};
}

CallTimes TimeRegistration(ibv_pd* pd, void* memory, size_t bytes, int access) {
  ibv_mr* mr = nullptr;
  return TimePair(
      500,
      [&] {
        mr = ibv_reg_mr(pd, memory, bytes, access);
        if (mr == nullptr) Die("ibv_reg_mr");
      },
      [&] {
        if (ibv_dereg_mr(mr) != 0) Die("ibv_dereg_mr");
      });
}

void PrintRegistration(ibv_pd* pd, void* memory, size_t bytes) {
  const CallTimes plain = TimeRegistration(pd, memory, bytes, kPlain);
  const CallTimes odp =
      TimeRegistration(pd, memory, bytes, kPlain | IBV_ACCESS_ON_DEMAND);
  ibv_mr* const first = ibv_reg_mr(pd, memory, bytes, kPlain);
  const CallTimes again = TimeRegistration(pd, memory, bytes, kPlain);
  ibv_dereg_mr(first);
  const CallTimes lock = TimePair(
      bytes > (1u << 20) ? 5 : 500,
      [&] {
        if (mlock(memory, bytes) != 0) Die("mlock");
      },
      [&] { munlock(memory, bytes); });
  std::printf(
      "\"%zu\": {\"reg_us\": %.2f, \"dereg_us\": %.2f, \"odp_reg_us\": %.2f, "
      "\"odp_dereg_us\": %.2f, \"again_reg_us\": %.2f, "
      "\"again_dereg_us\": %.2f, \"mlock_us\": %.2f, \"munlock_us\": %.2f}",
      bytes, plain.begin_us, plain.end_us, odp.begin_us, odp.end_us,
      again.begin_us, again.end_us, lock.begin_us, lock.end_us);
}

}  // namespace

void Registration(Pair& pair, const BenchOptions&) {
  constexpr size_t kSmall = 4096;
  constexpr size_t kLarge = size_t{1} << 30;
  void* const memory = mmap(nullptr, kLarge, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) Die("mmap");
  std::printf("{\"test\": \"registration\", ");
  PrintRegistration(pair.here().pd(), memory, kSmall);
  std::printf(", ");
  PrintRegistration(pair.here().pd(), memory, kLarge);
  std::printf("}\n");
  munmap(memory, kLarge);
}

}  // namespace urnic::bench
