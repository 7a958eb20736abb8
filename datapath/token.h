#pragma once

// Who runs the engine: a token held by one thread at a time, and the promise
// that no doorbell is lost although nobody ever waits for the token.
//
// A thread with work to announce tries the token. If it gets it, it does the
// work itself. If not, it marks its work in the pending set and tries once
// more. The holder, after releasing, looks into the set and takes the token
// again if something is there. All of it is sequentially consistent, so of
// the two sequences
//
//     poster: mark; try token          holder: release; look for marks
//
// at least one sees the other: either the poster's try succeeds, or the
// holder's look finds the mark. tests/token_interleaving_test.cc enumerates
// the interleavings of exactly this code with its own `Atomic`.

#include <cstdint>

#include "datapath/pending_set.h"

namespace urnic {

template <template <typename> class Atomic>
class Token {
 public:
  // One read-modify-write at most; the plain look first keeps the line shared
  // while others try in vain.
  bool TryTake() { return held_.load() == 0 && held_.exchange(1) == 0; }

  // Releases. True if marks were left by threads that found it taken: the
  // caller must then try to take it again and serve them.
  bool Release(const PendingSet<Atomic>& pending) {
    held_.exchange(0);
    return pending.Any();
  }

 private:
  Atomic<uint32_t> held_{0};
};

// Runs `serve` under the token until nothing is pending. False if the token
// was taken: then its holder will.
template <template <typename> class Atomic, typename Serve>
bool ServeIfFree(Token<Atomic>& token, PendingSet<Atomic>& pending,
                 Serve&& serve) {
  if (!token.TryTake()) return false;
  do {
    serve();
  } while (token.Release(pending) && token.TryTake());
  return true;
}

// Announces work number `index` for `serve`, which drains the set.
template <template <typename> class Atomic, typename Serve>
void Announce(Token<Atomic>& token, PendingSet<Atomic>& pending, uint32_t index,
              Serve&& serve) {
  pending.Mark(index);
  ServeIfFree(token, pending, serve);
}

}  // namespace urnic
