#include "datapath/engine/environment.h"

#include <rte_cycles.h>
#include <sys/random.h>
#include <unistd.h>

#include <ctime>

#include "transport/base/check.h"

namespace urnic {

Time Environment::Now() {
  // Units of 2^-32 ns per cycle: a reading costs one multiplication.
  static const uint64_t scale = [] {
    URNIC_CHECK(rte_get_tsc_hz() != 0);  // 0 until the EAL is up
    return static_cast<uint64_t>(
        (static_cast<unsigned __int128>(1000000000) << 32) / rte_get_tsc_hz());
  }();
  return Time::FromNs(static_cast<int64_t>(
      static_cast<unsigned __int128>(rte_rdtsc()) * scale >> 32));
}

int64_t Environment::WallClockNs(Time then) {
  timespec wall = {};
  clock_gettime(CLOCK_REALTIME, &wall);
  return int64_t{wall.tv_sec} * 1'000'000'000 + wall.tv_nsec -
         (Now() - then).ns();
}

uint64_t Environment::Draw() {
  uint64_t value = 0;
  if (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
    value = rte_rdtsc() * 0x9e3779b97f4a7c15 ^ static_cast<uint64_t>(getpid())
                                                   << 40;
  }
  return value;
}

void Environment::Sleep(Duration time) {
  usleep(static_cast<useconds_t>(time.ns() / 1000));
}

}  // namespace urnic
