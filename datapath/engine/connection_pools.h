#pragma once

// What all iWARP connections of an engine share: the memory that only busy
// connections need, and the rate limit of challenge acknowledgements. All
// memory is allocated by the constructor.

#include <cstdint>

#include "datapath/engine/connection_limits.h"
#include "datapath/engine/fpdu_slab.h"
#include "transport/base/frame_keeper.h"
#include "transport/base/permutation.h"
#include "transport/iwarp/mpa/delimiter.h"
#include "transport/iwarp/qp/early_fpdus.h"
#include "transport/iwarp/qp/endpoint.h"
#include "transport/iwarp/tcp/challenge.h"
#include "transport/iwarp/tcp/out_of_order.h"
#include "transport/iwarp/tcp/segment_ring.h"

namespace urnic {

class ConnectionPools {
 public:
  // `key` is secret. `mtu` is the link's. `frames` outlives the pools.
  ConnectionPools(const ConnectionLimits& limits, const NumberKey& key,
                  uint32_t mtu, FrameKeeper* frames)
      : frames_(frames),
        segments_(limits.segment_blocks),
        ranges_(limits.ranges),
        challenges_(key, limits.challenges_per_second),
        pieces_(limits.held_pieces),
        early_(limits.early_fpdus),
        fpdus_(limits.kept_fpdus, mtu) {}

  iwarp::EndpointPools ForEndpoint() {
    return {.segments = &segments_,
            .ranges = &ranges_,
            .challenges = &challenges_,
            .frames = frames_,
            .pieces = &pieces_,
            .fpdus = &fpdus_,
            .early = &early_};
  }

  tcp::ChallengeBudget* challenges() { return &challenges_; }
  // Sums since the start.
  uint64_t challenges_sent() const { return challenges_.taken(); }
  uint64_t pieces_held() const { return pieces_.held(); }

  // How many pieces are free.
  uint32_t free_blocks() const { return segments_.free_blocks(); }
  uint32_t free_ranges() const { return ranges_.free_count(); }
  uint32_t free_pieces() const { return pieces_.free(); }
  uint32_t free_early() const { return early_.free_count(); }
  uint32_t free_fpdus() const { return fpdus_.free(); }

 private:
  FrameKeeper* const frames_;
  tcp::SegmentSlab segments_;
  tcp::RangePool ranges_;
  tcp::ChallengeBudget challenges_;
  mpa::HeldPieces pieces_;
  iwarp::EarlyPool early_;
  FpduSlab fpdus_;
};

}  // namespace urnic
