#pragma once

// An iWARP connection as a flow of the engine: one end of it
// (transport/iwarp/qp), its path, and who is told what happens to it. It exists
// before its queue pair (a request that the program has not answered) and after
// it (our FIN is not acknowledged). ConnectionTable makes and destroys it.

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datapath/engine/connection_events.h"
#include "datapath/engine/flow.h"
#include "datapath/engine/flow_sink.h"
#include "datapath/engine/iwarp_input_tap.h"
#include "datapath/engine/iwarp_qp.h"
#include "transport/iwarp/qp/endpoint.h"
#include "transport/iwarp/tcp/four_tuple.h"
#include "transport/net/path.h"

namespace urnic {

class ConnectionTable;
class IwarpListener;

// Token holder only.
class IwarpConnection final : public Flow {
 public:
  // --- For the connection manager --------------------------------------------

  const tcp::FourTuple& tuple() const { return tuple_; }
  const net::Path& path() const { return path_; }
  // private_data(), failure(), set_up(): see there.
  const iwarp::Endpoint& endpoint() const { return *endpoint_; }
  // That it came to; null: the connection is one of ours, or the listener is
  // gone.
  IwarpListener* listener() const { return listener_; }
  uint64_t user() const { return user_; }
  void set_owner(ConnectionEvents* events, uint64_t user) {
    events_ = events;
    user_ = user;
  }
  // Null: none yet, or no longer.
  IwarpQp* qp() const { return qp_; }
  // By an owner. What is left of it is its end.
  bool is_forgotten() const { return !owned_ && !unanswered_; }
  // The longest private data of an answer, in bytes. REQUIRES: the request has
  // arrived, and is not answered.
  uint32_t answer_room() const { return set_up().responder().room(); }

  // --- For the engine --------------------------------------------------------

  ConnectionTable& table() const { return *table_; }
  // What it did for its queue pair: a request packet is a segment.
  RequesterCounters counters() const;
  net::Path& mutable_path() { return path_; }

  // A segment of a burst, which FlowSink::Begin() has begun. Its frame outlives
  // FinishBurst(). The verdict counts; for kTcp the peer gets a RST.
  // `Sink`: FlowSink or TracedSink.
  template <typename Sink>
  RxVerdict OnSegment(const wire::TcpSegment& segment,
                      const ReceivedFrame& frame, Time now, Sink& sink);
  // Executes the effects of the burst.
  template <typename Sink>
  FlowResult FinishBurst(Sink& sink);

  // Its queue pair is logged, or no longer, or has just been given to it: what
  // it does from now on is in the log.
  void FollowLog(Time now);

  // Appends its image, with its queue pair (transport/iwarp/qp/image.h).
  void AppendImage(Time now, std::string& out) const;

  // Segments to send, up to slots.size(). WritePayload() comes next for each
  // one, in order, and then Settle(). false: the segment is not sent.
  bool only_ack_waits() {
    if (__builtin_expect(is_logged_, 0)) return tap().only_ack_waits();
    return endpoint_->only_ack_waits();
  }
  uint32_t Transmit(Time now, std::span<tcp::TcpSlot> slots) {
    if (__builtin_expect(is_logged_, 0)) return tap().Transmit(now, slots);
    return endpoint_->Transmit(now, slots);
  }
  template <typename Memory>
  [[nodiscard]] bool WritePayload(const tcp::TcpSlot& slot,
                                  std::span<uint8_t> to, Memory&& read) {
    if (__builtin_expect(is_logged_, 0)) {
      return tap().WritePayload(
          slot, to, [&read](uint64_t address, std::span<uint8_t> bytes) {
            return read(address, bytes);
          });
    }
    return endpoint_->WritePayload(slot, to, read);
  }

  const net::Path* common_path() const override { return &path_; }
  FlowResult OnTimer(Time now, FlowSink& sink) override;
  void OnOutage(Time now) override;
  FlowResult Settle(FlowSink& sink) override { return SettleWith({}, sink); }
  FlowResult Settle(TracedSink& sink) override { return SettleWith({}, sink); }
  // What concerns the program concerns its queue pair.
  void OnEvent(QpEvent event) override {
    if (qp_ != nullptr) qp_->OnEvent(event);
  }
  bool ShowFailed(bool failed) override {
    return qp_ == nullptr ? failed : qp_->ShowFailed(failed);
  }
  void OnFailed() override {
    if (qp_ != nullptr) qp_->OnFailed();
  }

 private:
  friend class ConnectionTable;

  IwarpConnection(ConnectionTable* table, const tcp::FourTuple& tuple,
                  const net::Path& path, uint32_t kept_fpdus);

  // For the endpoint: passes effects on, and makes room for receives.
  template <typename Sink>
  struct BurstSink {
    void Place(const Placement& placement) { sink.Place(placement); }
    void Complete(const RecvCompletion& done);

    IwarpConnection& connection;
    Sink& sink;
  };

  // Calls f(calls) with what has the calls of the endpoint: the endpoint
  // itself, or the tap of a queue pair that is logged.
  template <typename F>
  [[gnu::always_inline]] decltype(auto) Calls(F&& f) {
    if (__builtin_expect(is_logged_, 0)) return f(tap());
    return f(*endpoint_);
  }
  iwarp::Event TakeEvent() {
    return Calls([](auto& calls) { return calls.TakeEvent(); });
  }
  // REQUIRES: is_logged_
  IwarpInputTap& tap() const { return *qp_->tap(); }
  // They are compiled in a file of their own (iwarp_logged.cc): see qp_of.h.
  template <typename Sink>
  [[gnu::cold]] RxVerdict OnLoggedSegment(const wire::TcpSegment& segment,
                                          const ReceivedFrame& frame, Time now,
                                          Sink& sink);
  template <typename Sink>
  [[gnu::cold]] void WriteLoggedReceives(Sink& sink);
  template <typename Sink>
  [[gnu::cold]] FlowResult SettleLogged(
      std::span<const RecvCompletion> receives, Sink& sink);

  const iwarp::SetUp& set_up() const { return endpoint_->set_up(); }
  // A new end, before Connect() or Open().
  void Begin(const iwarp::EndpointPools& pools);
  void Attach(IwarpQp* qp);
  // In the middle of a burst.
  template <typename Sink>
  void WriteReceives(Sink& sink);
  template <typename Sink>
  FlowResult SettleWith(std::span<const RecvCompletion> receives, Sink& sink);
  // The queue pair is in ERR.
  void CountTerminates();

  ConnectionTable* const table_;
  const tcp::FourTuple tuple_;
  net::Path path_;
  uint32_t known_mtu_ = 0;  // of the path, as the network knows it
  uint32_t kept_count_;
  std::unique_ptr<iwarp::KeptFpdu[]> kept_;
  std::optional<iwarp::Endpoint> endpoint_;
  IwarpQp* qp_ = nullptr;
  IwarpListener* listener_ = nullptr;
  ConnectionEvents* events_ = nullptr;
  uint64_t user_ = 0;
  bool in_burst_ = false;          // FinishBurst() will settle
  bool sent_counted_ = false;      // our Terminate
  bool received_counted_ = false;  // the peer's

  // Of the ConnectionTable.
  uint32_t index_ = 0;
  IwarpConnection* next_due_ = nullptr;  // there is something to deliver
  bool due_ = false;
  uint8_t events_due_ = 0;   // bits of iwarp::Event
  bool owned_ = false;       // someone has the pointer, and will forget it
  bool unanswered_ = false;  // counts for the listener's backlog
  bool silent_ = false;      // is in the listener's list, at:
  std::list<IwarpConnection*>::iterator silent_at_;
  bool retired_ = false;  // its addresses and ports are free again

  // What is needed to connect again with revision 1 of MPA.
  struct Retry {
    mpa::SetupOptions setup;
    rdmap::Config config;
    std::vector<uint8_t> private_data;
    bool due = false;
  };
  std::unique_ptr<Retry> retry_;
};

}  // namespace urnic
