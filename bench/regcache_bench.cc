// The cost of a registration cache beside plain ibv_reg_mr and ibv_dereg_mr, in
// one run: urnic run --port loop --addr 10.9.0.1/24 -- regcache_bench

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <vector>

#include "verbs/regcache/urnic_regcache.h"

namespace {

constexpr size_t kBytes = 1 << 20;
constexpr size_t kBuffers = 256;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;
constexpr int kTurns = 7;

void Must(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

double NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 +
         static_cast<double>(now.tv_nsec);
}

// The median of some turns, of the average of `count` calls.
double Median(size_t count, const std::function<void(size_t)>& call) {
  std::vector<double> turns;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double start = NowNs();
    for (size_t i = 0; i < count; ++i) call(i);
    turns.push_back((NowNs() - start) / static_cast<double>(count));
  }
  std::sort(turns.begin(), turns.end());
  return turns[kTurns / 2];
}

void Measure(ibv_pd* pd, char* memory, const char* name, uint32_t flags) {
  urnic_regcache_options options = {};
  options.flags = flags;
  urnic_regcache* cache = nullptr;
  if (urnic_regcache_open(pd, &options, &cache) != 0) {
    std::printf("%-28s not here\n", name);
    return;
  }
  const auto get_put = [&](size_t i) {
    urnic_regcache_use use;
    Must(urnic_regcache_get(cache, memory + i % kBuffers * kBytes, kBytes,
                            kAccess, &use) == 0 &&
             urnic_regcache_put(cache, &use) == 0,
         "get or put");
  };
  // Each buffer is changed before its use, so each get is a miss.
  const double miss = Median(kBuffers, [&](size_t i) {
    urnic_regcache_invalidate(memory + i * kBytes, kBytes);
    get_put(i);
  });
  std::printf("%-28s miss, get and put   %10.0f ns\n", name, miss);
  for (size_t i = 0; i < kBuffers; ++i) get_put(i);
  std::printf("%-28s hit, get and put    %10.1f ns (%zu buffers in turn)\n",
              name, Median(1'000'000, get_put), kBuffers);
  std::printf("%-28s hit, get and put    %10.1f ns (one buffer)\n", name,
              Median(1'000'000, [&](size_t) { get_put(0); }));
  Must(urnic_regcache_close(cache, nullptr) == 0, "close");
}

}  // namespace

int main() {
  ibv_device** list = ibv_get_device_list(nullptr);
  Must(list != nullptr && list[0] != nullptr, "no RDMA device");
  ibv_context* context = ibv_open_device(list[0]);
  Must(context != nullptr, "ibv_open_device");
  ibv_pd* pd = ibv_alloc_pd(context);
  Must(pd != nullptr, "ibv_alloc_pd");
  void* mapped = mmap(nullptr, kBuffers * kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  Must(mapped != MAP_FAILED, "mmap");
  char* memory = static_cast<char*>(mapped);
  std::printf("%-28s reg and dereg, 1 MB   %8.0f ns\n", "plain",
              Median(kBuffers, [&](size_t i) {
                ibv_mr* mr =
                    ibv_reg_mr(pd, memory + i * kBytes, kBytes, kAccess);
                Must(mr != nullptr && ibv_dereg_mr(mr) == 0, "ibv_reg_mr");
              }));
  Measure(pd, memory, "cache", 0);
  Measure(pd, memory, "cache, fast", URNIC_REGCACHE_FAST);
  Measure(pd, memory, "cache, fast, pages only",
          URNIC_REGCACHE_FAST | URNIC_REGCACHE_PAGES);
  return 0;
}
