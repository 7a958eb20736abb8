#include "verbs/perf/measure.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"

namespace urnic::perf {
namespace {

using Clock = std::chrono::steady_clock;

// Without any event for so long the test has failed.
constexpr auto kPatience = std::chrono::seconds(40);
constexpr uint32_t kEvents = 64;

absl::Status Refused(int error) {
  return absl::UnavailableError(
      absl::StrCat("an operation was refused: ", strerror(error)));
}

absl::Status Ended(uint8_t status) {
  constexpr const char* kWhy[] = {"ok",
                                  "",
                                  "",
                                  "",
                                  "our memory cannot be accessed",
                                  "the peer's memory cannot be accessed",
                                  "the windows of all our NICs failed",
                                  "the peer is lost: no path to it works",
                                  "the peer was removed",
                                  "the RNIC does not execute the command"};
  return absl::UnavailableError(
      absl::StrCat("an operation ended: ",
                   kWhy[std::min<size_t>(status, std::size(kWhy) - 1)]));
}

// One operation of the test. Each `turn` has its place in the memory.
int Begin(End& end, Operation operation, uint64_t bytes, uint64_t turn) {
  const uint64_t places = std::max<uint64_t>(end.memory_bytes() / bytes, 1);
  const uint64_t offset = turn % places * bytes;
  urnic_ep* const endpoint = end.endpoint();
  switch (operation) {
    case Operation::kWrite:
      if (bytes <= URNIC_RUD_INLINE) {
        return urnic_ep_write_inline(endpoint, end.peer(), end.memory(),
                                     static_cast<uint32_t>(bytes),
                                     end.peers_pvo() + offset, turn);
      }
      return urnic_ep_write(endpoint, end.peer(), end.pvo() + offset,
                            end.peers_pvo() + offset, bytes, turn);
    case Operation::kRead:
      return urnic_ep_read(endpoint, end.peer(), end.pvo() + offset,
                           end.peers_pvo() + offset, bytes, turn);
    case Operation::kSend:
      if (bytes <= URNIC_RUD_INLINE) {
        return urnic_ep_send_inline(endpoint, end.peer(), end.memory(),
                                    static_cast<uint32_t>(bytes), turn);
      }
      return urnic_ep_send(endpoint, end.peer(), end.pvo() + offset, bytes,
                           turn);
  }
  return EINVAL;
}

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

absl::StatusOr<RateResult> MeasureRate(
    End& end, Operation operation, uint64_t bytes, uint32_t depth,
    double seconds, const std::function<absl::Status()>& also) {
  urnic_ep_event events[kEvents];
  uint64_t begun = 0;
  uint64_t done = 0;
  uint64_t done_before = 0;  // when the measurement begins
  bool is_warm = false;
  bool is_over = false;
  double took = 0;
  Clock::time_point begin = Clock::now();
  Clock::time_point progress = begin;
  // The clock is read once for so many polls.
  constexpr uint32_t kPollsPerLook = 16;
  for (uint32_t polls = 0; !is_over || done != begun; ++polls) {
    while (!is_over && begun - done < depth) {
      const int error = Begin(end, operation, bytes, begun);
      if (error == EAGAIN) break;
      if (error != 0) return Refused(error);
      ++begun;
    }
    const uint32_t count = urnic_ep_poll(end.endpoint(), events, kEvents);
    for (const urnic_ep_event& event : std::span(events, count)) {
      if (event.type != URNIC_EP_DONE) continue;
      if (event.status != URNIC_EP_OK) return Ended(event.status);
      ++done;
    }
    if (absl::Status s = also(); !s.ok()) return s;
    if (count == 0 && polls % kPollsPerLook != 0) continue;
    const Clock::time_point now = Clock::now();
    if (count != 0) progress = now;
    if (now - progress > kPatience) return Refused(ETIMEDOUT);
    const double since = SecondsSince(begin);
    if (!is_warm && done != 0 && since >= seconds / 10) {
      is_warm = true;
      begin = now;
      done_before = done;
    } else if (is_warm && !is_over && since >= seconds) {
      is_over = true;
      took = since;
      done_before = done - done_before;
    }
  }
  return RateResult{.operations = done_before, .seconds = took};
}

absl::StatusOr<LatencyResult> MeasureLatency(
    End& end, Operation operation, uint64_t bytes, double seconds,
    const std::function<absl::Status()>& also) {
  urnic_ep_event events[kEvents];
  std::vector<double> times;
  const bool is_echo = operation == Operation::kSend;
  const Clock::time_point begin = Clock::now();
  for (uint64_t turn = 0;; ++turn) {
    const Clock::time_point start = Clock::now();
    if (const int error = Begin(end, operation, bytes, turn); error != 0)
      return Refused(error);
    bool is_done = false;
    bool is_back = !is_echo;
    while (!is_done || !is_back) {
      const uint32_t count = urnic_ep_poll(end.endpoint(), events, kEvents);
      for (const urnic_ep_event& event : std::span(events, count)) {
        if (event.status != URNIC_EP_OK) return Ended(event.status);
        (event.type == URNIC_EP_DONE ? is_done : is_back) = true;
      }
      if (absl::Status s = also(); !s.ok()) return s;
      if (Clock::now() - start > kPatience) return Refused(ETIMEDOUT);
    }
    const double took = SecondsSince(start) * 1e6;
    times.push_back(is_echo ? took / 2 : took);
    if (SecondsSince(begin) >= seconds) break;
  }
  // The first ones find cold caches.
  times.erase(times.begin(),
              times.begin() + static_cast<int64_t>(times.size() / 10));
  std::ranges::sort(times);
  const auto at = [&](double share) {
    return times[static_cast<size_t>(share *
                                     static_cast<double>(times.size() - 1))];
  };
  return LatencyResult{.rounds = times.size(),
                       .minimum = times.front(),
                       .median = at(0.5),
                       .p99 = at(0.99),
                       .p999 = at(0.999),
                       .maximum = times.back()};
}

absl::Status Server::Serve() {
  urnic_ep_event events[kEvents];
  const uint32_t count = urnic_ep_poll(end_.endpoint(), events, kEvents);
  for (const urnic_ep_event& event : std::span(events, count)) {
    if (event.status != URNIC_EP_OK) return Ended(event.status);
    if (event.type != URNIC_EP_MESSAGE || !echoes_) continue;
    const int error =
        Begin(end_, Operation::kSend, std::max<uint64_t>(event.bytes, 1), 0);
    if (error != 0) return Refused(error);
    urnic_ep_flush(end_.endpoint());
  }
  return absl::OkStatus();
}

}  // namespace urnic::perf
