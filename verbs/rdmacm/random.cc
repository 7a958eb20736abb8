#include "verbs/rdmacm/random.h"

#include <sys/random.h>
#include <unistd.h>

namespace urnic::rdmacm {

uint64_t RandomSeed() {
  uint64_t seed = 0;
  // Early at boot there may be none, and waiting for it is not worth it.
  if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed)) {
    seed = static_cast<uint64_t>(getpid());
  }
  return seed;
}

}  // namespace urnic::rdmacm
