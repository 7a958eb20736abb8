#include "tests/sim/iwarp_plan.h"

#include <algorithm>

namespace urnic::sim {
namespace {

LinkConfig ChooseLink(Random& random) {
  static constexpr int64_t kDelays[] = {2'000, 10'000, 50'000, 1'000'000};
  LinkConfig config;
  config.delay = Duration::Nanoseconds(kDelays[random.Below(4)]);
  const uint64_t kind = random.Below(3);
  if (kind == 0) return config;
  const auto up_to = [&](uint64_t limit) {
    return static_cast<uint32_t>(random.Below(limit));
  };
  const uint64_t limit = kind == 1 ? 20'000 : 150'000;
  config.loss_ppm = up_to(limit);
  config.duplicate_ppm = up_to(limit);
  config.reorder_ppm = up_to(limit);
  if (random.OneIn(2)) config.jitter = Duration::Nanoseconds(up_to(30'000));
  if (random.OneIn(2)) config.corrupt_ppm = up_to(limit / 4);
  if (random.OneIn(4)) {
    config.bits_per_second = 100'000'000;
    config.buffer_bytes = 30'000;
  }
  return config;
}

Duration UpTo(Random& random, uint64_t nanoseconds) {
  return Duration::Nanoseconds(
      static_cast<int64_t>(1 + random.Below(nanoseconds)));
}

}  // namespace

IwarpPlan::IwarpPlan(Random& random, uint16_t port, bool retry)
    : initiator(static_cast<int>(random.Below(2))),
      links{ChooseLink(random), ChooseLink(random)},
      faults(UpTo(random, 1'000'000'000)),
      rejects(random.OneIn(30)),
      damages(random.OneIn(8)),
      marks(random.OneIn(4)),
      trouble(random.OneIn(3) ? static_cast<IwarpTrouble>(
                                    1 + random.Below(kIwarpTroubles - 1))
                              : IwarpTrouble::kNone),
      troubled(static_cast<int>(random.Below(2))),
      steps(1 + random.Below(40)),
      pace(Duration::Nanoseconds(random.OneIn(2) ? 20'000 : 1'000'000)),
      ends_early(random.OneIn(4)),
      ending(static_cast<IwarpEnding>(random.Below(4))),
      ender(static_cast<int>(random.Below(2))) {
  for (int i = 0; i < 2; ++i) {
    ends[static_cast<size_t>(i)] = ChooseEnd(random, i == listener(), port);
  }
  ChooseSetUp(random, retry);
  // Cookies know few sizes of segments: below 160 bytes, only one that is too
  // small for iWARP.
  const tcp::Offer& offer = ends[static_cast<size_t>(initiator)].tcp.offer;
  cookies = offer.mss >= 160 && random.OneIn(4);
}

IwarpChoice IwarpPlan::ChooseEnd(Random& random, bool listens,
                                 uint16_t port) const {
  IwarpChoice choice;
  choice.tcp.local_port = listens ? kListenPort : port;
  choice.tcp.remote_port = listens ? port : kListenPort;
  // They wrap soon.
  choice.tcp.iss = SeqNum(static_cast<uint32_t>(-random.Below(30000)));
  choice.tcp.timestamp_offset = static_cast<uint32_t>(-random.Below(3000));
  tcp::Offer& offer = choice.tcp.offer;
  offer.mss = static_cast<uint16_t>(
      random.OneIn(3) ? 300 + random.Below(500) : 1400 + random.Below(7600));
  offer.sack = !random.OneIn(4);
  offer.timestamps = !random.OneIn(4);
  offer.ecn = random.OneIn(2);
  offer.urnic = !random.OneIn(4);
  choice.tcp.dctcp = random.OneIn(2);
  choice.tcp.window_bytes = static_cast<uint32_t>(
      random.OneIn(3) ? 600 + random.Below(12000) : 20000 << random.Below(8));
  choice.segment_blocks = static_cast<uint32_t>(1 + random.Below(8));
  choice.ranges = random.OneIn(4) ? 4 : 512;
  choice.kept_fpdus = 1u << random.Below(5);
  choice.engine_fpdus = static_cast<uint32_t>(1 + random.Below(20));
  choice.config.access = IwarpMemory::kShared;
  choice.config.keep_bytes = random.OneIn(3) ? 0 : 64;
  choice.config.immediate = random.OneIn(2) ? rdmap::ImmediateData::kNone
                                            : rdmap::ImmediateData::kRfc7306;
  return choice;
}

void IwarpPlan::ChooseSetUp(Random& random, bool retry) {
  const auto some_depth = [&] {
    constexpr uint64_t kDepths = IwarpEnd::kAnswers + 1;
    return static_cast<uint16_t>(random.Below(random.OneIn(2) ? 3 : kDepths));
  };
  const auto some_kinds = [&] {
    return static_cast<mpa::RtrKinds>(1 + random.Below(mpa::kRtrAll));
  };
  for (IwarpChoice& end : ends) {
    end.setup.crc = damages || random.OneIn(2);
    end.setup.markers = random.OneIn(2);
    end.setup.ird = some_depth();
    end.setup.ord = some_depth();
    end.setup.max_ird = IwarpEnd::kAnswers;
  }
  mpa::SetupOptions& first = ends[static_cast<size_t>(initiator)].setup;
  mpa::SetupOptions& second = ends[static_cast<size_t>(listener())].setup;
  first.peer_to_peer = random.OneIn(2);
  first.rtr_kinds = random.OneIn(2) ? some_kinds() : mpa::kRtrRead;
  if (random.OneIn(10)) second.rtr_kinds = some_kinds();
  if (random.OneIn(10)) second.revision = 1;
  if (retry || random.OneIn(4)) first.revision = 1;
  // Revision 1 says nothing about depths: the programs agree.
  if (std::min(first.revision, second.revision) == 1) {
    first.ird = second.ird = IwarpEnd::kAnswers;
  }
  mpa::RtrKinds kinds = first.rtr_kinds & second.rtr_kinds;
  // A responder that takes no reads cannot take one as RTR.
  if (second.ird == 0 && first.ord == 0) {
    kinds &= static_cast<mpa::RtrKinds>(~mpa::kRtrRead);
  }
  may_fail_to_connect = rejects || (first.peer_to_peer && kinds == 0) ||
                        first.revision > second.revision;
  for (IwarpChoice& end : ends) {
    end.config.ird = end.setup.ird;
    end.config.ord = end.setup.ord;
  }
}

}  // namespace urnic::sim
