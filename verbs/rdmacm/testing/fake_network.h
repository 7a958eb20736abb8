#pragma once

// RNICs that are joined by a wire in this process. MADs stay on the wire until
// the test delivers them, and time stands still until the test advances it.

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "verbs/rdmacm/rnic.h"

namespace urnic::rdmacm {

class FakeRnic;

class FakeNetwork {
 public:
  using Mad = std::array<uint8_t, 256>;
  struct InFlight {
    Mad mad;
    net::PathQuery path;  // as its sender sees it
  };

  // Whether a MAD is lost. All arrive by default.
  std::function<bool(const InFlight&)> is_lost = [](const InFlight&) {
    return false;
  };
  RxVerdict last_verdict = RxVerdict::kAccept;

  Time now() const {
    std::lock_guard lock(mutex_);
    return now_;
  }
  void Send(const Mad& mad, const net::PathQuery& path) {
    std::lock_guard lock(mutex_);
    wire_.push_back({mad, path});
    sent_.notify_one();
  }
  // Waits for something to deliver, and delivers it. For a separate thread.
  void WaitAndDeliver() {
    {
      std::unique_lock lock(mutex_);
      sent_.wait(lock, [this] { return !wire_.empty(); });
    }
    Deliver();
  }
  // Whether questions for the address go unanswered.
  void SetSilent(const wire::Gid& gid, bool is_silent) {
    std::lock_guard lock(mutex_);
    std::erase(silent_, gid);
    if (is_silent) silent_.push_back(gid);
  }
  bool IsSilent(const wire::Gid& gid) const {
    std::lock_guard lock(mutex_);
    return std::find(silent_.begin(), silent_.end(), gid) != silent_.end();
  }
  void Attach(FakeRnic* rnic) { rnics_.push_back(rnic); }
  void Detach(FakeRnic* rnic) { std::erase(rnics_, rnic); }

  // Delivers the MADs on the wire, and those that are sent in response. Returns
  // how many MADs arrived.
  inline int Deliver();
  // Advances the time, deadline by deadline, and delivers.
  inline void Advance(Duration duration);

  const std::vector<FakeRnic*>& rnics() const { return rnics_; }

 private:
  mutable std::mutex mutex_;
  Time now_ = Time::FromNs(1);
  std::condition_variable sent_;
  std::vector<wire::Gid> silent_;
  std::deque<InFlight> wire_;
  std::vector<FakeRnic*> rnics_;
};

class FakeRnic final : public Rnic {
 public:
  FakeRnic(FakeNetwork& network, const std::string& name,
           std::vector<wire::Gid> gids)
      : network_(network) {
    info_.name = name;
    info_.node_guid = {2, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(name.back())};
    info_.interface_index = 0;
    uint8_t index = 1;
    for (const wire::Gid& gid : gids) {
      const uint8_t bits = gid.is_ipv4() ? 96 + 24 : 64;
      addresses_.push_back({gid, index, bits});
      index = static_cast<uint8_t>(index + 2);
    }
    network_.Attach(this);
  }
  FakeRnic(FakeNetwork& network, RnicInfo info,
           std::vector<RnicAddress> addresses)
      : network_(network),
        info_(std::move(info)),
        addresses_(std::move(addresses)) {
    network_.Attach(this);
  }
  ~FakeRnic() override { network_.Detach(this); }

  // Makes it an iWARP device, before anyone uses it.
  void MakeIwarp(TcpConnections* tcp) {
    tcp_ = tcp;
    info_.pkeys.clear();
    std::copy_n(info_.node_guid.begin(), 6, info_.mac_gid.bytes.begin());
  }

  // Of all paths that are found.
  uint32_t path_mtu = 0;
  // The destination that has a route, and that route.
  wire::Gid routed_remote;
  std::optional<Route> routed;

  const RnicInfo& info() const override { return info_; }
  void set_interface_index(uint32_t index) { info_.interface_index = index; }
  std::vector<RnicAddress> Addresses() const override { return addresses_; }
  std::optional<Route> RouteTo(const wire::Gid& remote) const override {
    return remote == routed_remote ? routed : std::nullopt;
  }
  uint8_t MtuCode(uint32_t path_mtu) const override {
    return path_mtu == 0 ? 3 : 2;
  }
  Time Now() const override { return network_.now(); }
  TcpConnections* tcp() override { return tcp_; }

  int Open() override {
    std::lock_guard lock(token_);
    is_open = open_error == 0;
    return open_error;
  }
  bool NoteRefusal(const Notice& notice) override {
    std::lock_guard lock(token_);
    if (is_open) refusals.push_back(notice);
    return is_open;
  }
  void NoteFailure(const Notice& notice) override {
    failures.push_back(notice);
  }
  void ServeMads(net::MadHandler& handler) override { handler_ = &handler; }
  net::QuestionId AskPath(const net::PathQuery& query, net::PathWaiter* waiter,
                          Duration timeout) override {
    if (while_asking) while_asking();
    if (questions_.size() == max_questions) return 0;
    const net::QuestionId id = ++last_question_;
    if (HasGid(query.remote) || !network_.IsSilent(query.remote)) {
      waiter->OnPath(net::PathStatus::kFound, PathTo(query));
    } else {
      questions_.push_back({id, query, waiter, network_.now() + timeout});
    }
    return id;
  }
  void CancelPath(net::QuestionId id) override {
    std::erase_if(questions_, [id](const Question& q) { return q.id == id; });
  }
  void WithToken(void (*action)(void*, Time), void* context) override {
    std::lock_guard lock(token_);
    action(context, network_.now());
  }
  bool TryWithToken(void (*action)(void*, Time), void* context) override {
    std::unique_lock token(token_, std::try_to_lock);
    if (token.owns_lock()) action(context, network_.now());
    return token.owns_lock();
  }
  void Wait() override { network_.Advance(Duration::Milliseconds(1)); }
  // Holds the token, as another thread might for a long time.
  std::unique_lock<std::mutex> HoldToken() { return std::unique_lock(token_); }
  void SendMad(std::span<const uint8_t, 256> mad,
               const net::PathQuery& to) override {
    FakeNetwork::Mad copy;
    std::copy(mad.begin(), mad.end(), copy.begin());
    network_.Send(copy, to);
  }

  bool HasGid(const wire::Gid& gid) const {
    return std::any_of(addresses_.begin(), addresses_.end(),
                       [&](const RnicAddress& a) { return a.gid == gid; });
  }
  RxVerdict Receive(const FakeNetwork::InFlight& in_flight) {
    net::PathQuery from = in_flight.path;
    std::swap(from.local, from.remote);
    std::lock_guard lock(token_);
    if (handler_ == nullptr) return RxVerdict::kAccept;
    return handler_->OnMad(in_flight.mad, from, network_.now());
  }
  // The neighbour answers the open questions for its address.
  void Answer(const wire::Gid& gid) {
    network_.SetSilent(gid, false);
    std::lock_guard lock(token_);
    Tell(net::PathStatus::kFound,
         [&](const Question& q) { return q.query.remote == gid; });
  }
  size_t questions() {
    std::lock_guard lock(token_);
    return questions_.size();
  }
  Time Deadline() {
    std::lock_guard lock(token_);
    Time first =
        handler_ == nullptr ? Time::Infinite() : handler_->NextDeadline();
    for (const Question& q : questions_) first = std::min(first, q.deadline);
    return first;
  }
  void RunTimer() {
    std::lock_guard lock(token_);
    const Time now = network_.now();
    Tell(net::PathStatus::kNoAnswer,
         [&](const Question& q) { return q.deadline <= now; });
    if (handler_ != nullptr) handler_->OnTimer(now);
  }

  int open_error = 0;
  bool is_open = false;
  std::vector<Notice> refusals;
  std::vector<Notice> failures;
  size_t max_questions = 1000;
  // Called under the token by the thread that asks.
  std::function<void()> while_asking;

 private:
  struct Question {
    net::QuestionId id;
    net::PathQuery query;
    net::PathWaiter* waiter;
    Time deadline;
  };
  net::Path PathTo(const net::PathQuery& query) const {
    net::Path path;
    path.local = query.local;
    path.remote = query.remote;
    path.mtu = path_mtu;
    return path;
  }
  template <typename F>
  void Tell(net::PathStatus status, const F& whom) {
    std::vector<Question> told;
    std::copy_if(questions_.begin(), questions_.end(), std::back_inserter(told),
                 whom);
    std::erase_if(questions_, whom);
    for (const Question& q : told) q.waiter->OnPath(status, PathTo(q.query));
  }

  FakeNetwork& network_;
  RnicInfo info_;
  std::vector<RnicAddress> addresses_;
  net::MadHandler* handler_ = nullptr;
  TcpConnections* tcp_ = nullptr;
  std::vector<Question> questions_;
  net::QuestionId last_question_ = 0;
  std::mutex token_;
};

inline int FakeNetwork::Deliver() {
  int count = 0;
  for (;;) {
    InFlight in_flight;
    {
      std::lock_guard lock(mutex_);
      if (wire_.empty()) return count;
      in_flight = wire_.front();
      wire_.pop_front();
    }
    if (is_lost(in_flight)) continue;
    for (FakeRnic* rnic : rnics_) {
      if (!rnic->HasGid(in_flight.path.remote)) continue;
      last_verdict = rnic->Receive(in_flight);
      ++count;
      break;
    }
  }
}

inline void FakeNetwork::Advance(Duration duration) {
  const Time end = now() + duration;
  for (;;) {
    Deliver();
    FakeRnic* next = nullptr;
    Time deadline = Time::Infinite();
    for (FakeRnic* rnic : rnics_) {
      if (rnic->Deadline() < deadline) {
        next = rnic;
        deadline = rnic->Deadline();
      }
    }
    {
      std::lock_guard lock(mutex_);
      now_ = std::max(now_, std::min(deadline, end));
    }
    if (next == nullptr || deadline > end) return;
    next->RunTimer();
  }
}

}  // namespace urnic::rdmacm
