#pragma once

// Verbs are not cancellation points (pthread_cancel): a thread that ended
// inside a verb would still hold the engine's token or a lock.
// no_cancellation.cc covers the plugin's own calls. This class covers calls
// inside libc, for example in its streams.

#include <pthread.h>

namespace urnic::provider {

// While it exists, its thread cannot be cancelled. Takes 18 ns (glibc 2.36, two
// atomic operations): too much for each poll, but little compared with a system
// call.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace urnic::provider
