#pragma once

// The token of an engine. One thread at a time holds it and runs the engine. No
// doorbell is lost, although no thread ever waits for the token.
//
// A thread with work to announce tries to take the token. If it succeeds, it
// does the work itself. If not, it marks its work in the pending set and tries
// once more. The holder, after releasing, looks into the set and takes the
// token again if something is marked. All operations are sequentially
// consistent, so of the two sequences
//
//     poster: mark; try token          holder: release; look for marks
//
// at least one sees the other: either the poster's try succeeds, or the
// holder's look finds the mark. token_test.cc enumerates the
// interleavings of exactly this code, with its own `Atomic`.

#include <cstdint>

#include "datapath/engine/pending_set.h"

namespace urnic {

template <template <typename> class Atomic>
class Token {
 public:
  // At most one read-modify-write. The plain load before it keeps the cache
  // line shared while other threads fail to take the token.
  bool TryTake() { return held_.load() == 0 && held_.exchange(1) == 0; }

  // Releases the token. True if threads that found it taken have left marks:
  // the caller must then try to take the token again and serve them.
  template <uint32_t kLeafWords>
  bool Release(const PendingSet<Atomic, kLeafWords>& pending) {
    held_.exchange(0);
    return pending.Any();
  }

 private:
  Atomic<uint32_t> held_{0};
};

// Runs `serve` under the token until nothing is pending. False if the token was
// taken: then its holder does the work.
template <typename TokenT, typename PendingT, typename Serve>
bool ServeIfFree(TokenT& token, PendingT& pending, Serve&& serve) {
  if (!token.TryTake()) return false;
  do {
    serve();
  } while (token.Release(pending) && token.TryTake());
  return true;
}

// Rings the doorbell of the place `index`. If the token is free, `serve_one`
// does only that work. Otherwise this marks the place; if the holder has
// released the token meanwhile, `serve` runs and drains the set.
template <typename TokenT, typename PendingT, typename ServeOne, typename Serve>
void Post(TokenT& token, PendingT& pending, uint32_t index,
          ServeOne&& serve_one, Serve&& serve) {
  if (token.TryTake()) {
    serve_one();
    if (!token.Release(pending)) return;
  } else {
    pending.Mark(index);
  }
  ServeIfFree(token, pending, serve);
}

}  // namespace urnic
