// The engine and its host core (transport/net): addresses, paths, questions,
// timers. Off the packet path.

#include <unistd.h>

#include <atomic>
#include <utility>

#include "datapath/engine/engine.h"

namespace urnic {

namespace {

absl::Status StatusOf(net::PathStatus status) {
  switch (status) {
    case net::PathStatus::kFound:
      return absl::OkStatus();
    case net::PathStatus::kMixedFamilies:
      return absl::InvalidArgumentError(
          "one address is IPv4 and the other IPv6: a path needs two of one "
          "family");
    case net::PathStatus::kNotLocal:
      return absl::NotFoundError(
          "the source GID is not an address of this port");
    case net::PathStatus::kNoRoute:
      return absl::UnavailableError(
          "no route to the destination: it is on no link of this port's "
          "addresses, and no entry of the route table leads there");
    case net::PathStatus::kNoAnswer:
      return absl::DeadlineExceededError(
          "the destination, or the router on the way, answers neither ARP nor "
          "neighbour discovery");
    case net::PathStatus::kNoRoom:
      break;
  }
  return absl::ResourceExhaustedError(
      "too many neighbours are in use, or too many are asked for");
}

// Waits outside of the token for an answer that comes inside.
class Waiting final : public PathWaiter {
 public:
  void OnPath(net::PathStatus status, const net::Path& path) override {
    status_ = status;
    path_ = path;
    done_.store(true, std::memory_order_release);
  }
  bool done() const { return done_.load(std::memory_order_acquire); }
  absl::StatusOr<net::Path> Take() {
    if (status_ != net::PathStatus::kFound) return StatusOf(status_);
    return std::move(path_);
  }

 private:
  std::atomic<bool> done_ = false;
  net::PathStatus status_ = net::PathStatus::kNoAnswer;
  net::Path path_;
};

}  // namespace

void Engine::SetAddresses(std::vector<net::LocalAddress> addresses) {
  host_.SetAddresses(std::move(addresses));
  qps_.ForEach([this](EngineQp& qp) {
    if (qp.service() != QpService::kUd && qp.state() >= QpState::kRtr) {
      host_.CheckSource(qp.path);
    }
  });
  addresses_.ForEach([this](net::Path& path) { host_.CheckSource(path); });
}

net::QuestionId Engine::Ask(const net::PathQuery& query, PathWaiter* waiter,
                            Duration timeout) {
  const Time now = Now();
  const net::QuestionId id = host_.Ask(
      query, reinterpret_cast<uint64_t>(waiter), now, now + timeout, tx_);
  DeliverAnswers(now);
  return id;
}

void Engine::DeliverAnswers(Time now) {
  net::Host::Answer answer;
  while (host_.TakeAnswer(now, answer)) {
    reinterpret_cast<PathWaiter*>(answer.user)
        ->OnPath(answer.status, answer.path);
  }
  SetControlDeadline();
}

void Engine::OnControlTimer(Time now) {
  if (now >= host_.NextDeadline()) host_.OnTimer(now, tx_);
  if (now >= gsi_.NextDeadline()) gsi_.OnTimer(now);
  DeliverAnswers(now);
}

void Engine::Suspect(const EngineQp& qp, Time now) {
  if (qp.path.adjacency == nullptr) return;
  host_.Suspect(*qp.path.adjacency, now, tx_);
  DeliverAnswers(now);
}

absl::StatusOr<net::Path> Engine::ResolvePath(const net::PathQuery& query,
                                              Duration timeout) {
  Waiting waiting;
  {
    ControlScope scope(*this);
    if (timeout <= Duration()) {
      net::Path path;
      const net::PathStatus status = host_.Find(query, Now(), path);
      if (status != net::PathStatus::kFound) return StatusOf(status);
      return path;
    }
    if (Ask(query, &waiting, timeout) == 0) {
      return StatusOf(net::PathStatus::kNoRoom);
    }
  }
  while (!waiting.done()) {
    // Where nothing can arrive, looking often finds nothing.
    usleep(port_->info().state == PortState::kUp ? 50 : 2000);
    // The host's timer ends the wait at the latest.
    ControlScope scope(*this);
    Iterate(/*inline_poll=*/false);
  }
  return waiting.Take();
}

}  // namespace urnic
