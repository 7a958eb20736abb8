#include "verbs/rdmacm/random.h"

#include <sys/random.h>
#include <unistd.h>

#include <ctime>

namespace urnic::rdmacm {

NumberKey RandomKey() {
  NumberKey key;
  // Early at boot there may be no random bytes; it is not worth waiting.
  if (getrandom(key.word, sizeof(key.word), GRND_NONBLOCK) !=
      static_cast<ssize_t>(sizeof(key.word))) {
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    key.word[0] = static_cast<uint64_t>(getpid());
    key.word[1] = static_cast<uint64_t>(now.tv_nsec);
  }
  return key;
}

}  // namespace urnic::rdmacm
