#pragma once

// The latest failures of an engine: work requests, queue pairs and connections
// that failed, and calls that were refused. Each has what people ask about a
// failure: which peer, and why. The newest replaces the oldest.
//
// Thread: the holder of the engine's token.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ras/errors/error_code.h"
#include "ras/metrics/rx_verdict.h"
#include "ras/newest/newest.h"
#include "ras/trace/trace.h"
#include "transport/base/time.h"
#include "transport/mem/mr_table.h"
#include "transport/wire/address.h"

namespace urnic {

class EngineQp;

// The memory that a failed request names, by a key of this host or of the peer.
struct FailedAccess {
  uint32_t element = 0;  // position in the list, from 1; 0: there is no list
  uint32_t elements = 0;
  uint32_t key = 0;  // 0: unknown
  uint64_t address = 0;
  uint64_t length = 0;
  bool by_queue_pair = false;  // the queue pair itself forbids such requests
  // Why a key of this host forbids the access. kNone: the key allows it, but
  // the memory itself cannot be accessed.
  mem::MemFault fault = mem::MemFault::kNone;
  uint64_t region_address = 0;  // kRange: of the region of the key
  uint64_t region_length = 0;
};

struct Failure {
  Time at = {};
  ErrorCode code = {};
  bool iwarp = false;  // numbers of RoCE and iWARP are different spaces
  uint32_t qpn = 0;    // the queue pair that failed; 0: it was none, but
  uint32_t cqn = 0;    // this completion queue, or
  uint32_t srqn = 0;   // this shared receive queue, or
  // the port, or a call of the program. What happened, in words.
  std::string text = {};
  uint64_t times = 1;  // how often in a row the same call was refused

  // Add() asks this queue pair for `state`, and then clears the pointer.
  const EngineQp* qp = nullptr;
  // The state of the queue pair, and of each object that it uses, at that
  // moment: a line of facts for each. Empty: too many failed at once.
  std::string state = {};

  // The peer, if the queue pair has one.
  bool has_peer = false;
  wire::Gid remote = {};
  uint32_t remote_qpn = 0;   // RoCE; 0: there is no connection yet
  uint16_t remote_port = 0;  // of iWARP, or before there is one, of rdma_cm
  uint16_t terminate = 0;    // iWARP: layer, type and code, as on the wire

  // A work request that failed.
  bool has_request = false;
  bool is_send = false;  // of the send queue
  uint8_t status = 0;    // enum urnic_wc_status
  RxVerdict cause = RxVerdict::kAccept;
  uint64_t wr_id = 0;

  // What the program or the peer requested: RequestKind::name, or "receive".
  // Empty: unknown.
  std::string_view operation = {};
  // The memory that could not be accessed, if known.
  std::optional<FailedAccess> access = {};
  // The keys of this host that the request names, for `state`. Add() clears
  // them.
  std::vector<uint32_t> keys = {};

  // RC: the requester.
  uint32_t psn = 0;     // the first that is not acknowledged
  uint8_t retries = 0;  // as configured
  uint8_t rnr_retries = 0;
  Duration timeout = {};  // before each retry; infinite: none
  Time answered_at = {};  // the last answer from the path's peer; 0: never
  uint64_t timeouts = 0;  // in its life
  uint64_t sequence_naks = 0;
  uint64_t rnr_naks = 0;
};

// The error code of a work request that completed with this status (enum
// urnic_wc_status). REQUIRES: it is not success.
ErrorCode CodeOfStatus(uint8_t status);

// Adds to a failure what the queue pair knows about it now.
Failure FailureOf(Failure failure, const EngineQp& qp);
inline Failure FailureOf(ErrorCode code, const EngineQp& qp) {
  return FailureOf(Failure{.code = code}, qp);
}

class Failures {
 public:
  static constexpr uint32_t kEntries = 256;  // a power of two
  // At most this many failures in a second keep their `state`, because the
  // engine stops while it is collected. The first failures tell most.
  static constexpr uint32_t kStatesPerSecond = 16;

  // `now`: the engine's clock. `trace` records every failure. Both outlive this
  // object.
  Failures(const Time* now, Trace* trace) : now_(*now), trace_(*trace) {}

  [[gnu::cold, gnu::noinline]] void Add(Failure failure,
                                        TracePlace place = TracePlace::Here());
  // Traces a completion with an error. (TracedSink sees only completions that a
  // burst of packets causes.)
  void TraceCompletion(TracePoint point, const TraceSubject& subject,
                       const std::array<uint64_t, 4>& words) {
    trace_.Add(point, subject, words);
  }
  // From now on Add() calls `on_added`, with the token held. `watcher` only
  // names the registration for Unwatch().
  void Watch(const void* watcher, std::function<void()> on_added) {
    watchers_.emplace_back(watcher, std::move(on_added));
  }
  void Unwatch(const void* watcher) {
    std::erase_if(watchers_, [&](const auto& w) { return w.first == watcher; });
  }

  // How often this error occurred, including failures that are no longer kept.
  uint64_t CountOf(ErrorCode code) const { return counts_[IndexOf(code)]; }

  // See Newest.
  uint64_t added() const { return entries_.added(); }
  uint64_t oldest() const { return entries_.oldest(); }
  template <typename F>
  std::optional<uint64_t> Visit(uint64_t number, size_t most, F&& visit) const {
    return entries_.Visit(number, most, visit);
  }

 private:
  bool MayKeepState();
  // The position in AllErrors().
  static size_t IndexOf(ErrorCode code) {
    return static_cast<size_t>(&WordsOf(code) - AllErrors().data());
  }

  const Time& now_;
  Trace& trace_;
  std::vector<std::pair<const void*, std::function<void()>>> watchers_;
  Time states_since_;            // when the current second began
  uint32_t states_in_time_ = 0;  // states kept since then
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(AllErrors().size());
  Newest<Failure, kEntries> entries_;
};

}  // namespace urnic
