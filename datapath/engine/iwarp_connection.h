#pragma once

// An iWARP connection as a flow of the engine: its endpoint
// (transport/iwarp/qp), its path, and the owner that gets its events. It may
// exist before it has a queue pair (the program has not answered the request)
// and after its queue pair is gone (our FIN is not acknowledged).
// ConnectionTable makes and destroys it.

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
  // For its private_data(), failure() and set_up().
  const iwarp::Endpoint& endpoint() const { return *endpoint_; }
  // The listener that accepted it. Null: it is an active connection, or the
  // listener is gone.
  IwarpListener* listener() const { return listener_; }
  uint64_t user() const { return user_; }
  void set_owner(ConnectionEvents* events, uint64_t user) {
    events_ = events;
    user_ = user;
  }
  // Null: it has no queue pair yet, or no longer.
  IwarpQp* qp() const { return qp_; }
  // Its owner has forgotten it: it only has to close.
  bool is_forgotten() const { return !owned_ && !unanswered_; }
  // The longest private data of an answer, in bytes. REQUIRES: the request has
  // arrived, and is not answered.
  uint32_t answer_room() const { return set_up().responder().room(); }

  // --- For the engine --------------------------------------------------------

  ConnectionTable& table() const { return *table_; }
  // What it has sent for its queue pair; each segment counts as a request
  // packet.
  RequesterCounters counters() const;
  net::Path& mutable_path() { return path_; }

  // Processes a segment of a burst that FlowSink::Begin() has begun. Its frame
  // outlives FinishBurst(). The caller counts the verdict; for kTcp it sends a
  // RST to the peer. `Sink`: FlowSink or TracedSink.
  template <typename Sink>
  RxVerdict OnSegment(const wire::TcpSegment& segment,
                      const ReceivedFrame& frame, Time now, Sink& sink);
  // Executes the effects of the burst.
  template <typename Sink>
  FlowResult FinishBurst(Sink& sink);

  // Call this when the queue pair begins or ends to be logged, and when a queue
  // pair is attached: the connection follows its log.
  void FollowLog(Time now);

  // Appends its image, including its queue pair (transport/iwarp/qp/image.h).
  void AppendImage(Time now, std::string& out) const;

  bool only_ack_waits() {
    if (__builtin_expect(is_logged_, 0)) return tap().only_ack_waits();
    return endpoint_->only_ack_waits();
  }
  // Fills up to slots.size() segments to send; returns how many. The caller
  // then calls WritePayload() for each one, in order, and then Settle(). If
  // WritePayload() returns false, the segment is not sent.
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
  // Events for the program go to the queue pair.
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

  // The endpoint's sink: passes effects on, and writes the completed receives
  // when there is no room for more.
  template <typename Sink>
  struct BurstSink {
    void Place(const Placement& placement) { sink.Place(placement); }
    void Complete(const RecvCompletion& done);

    IwarpConnection& connection;
    Sink& sink;
  };

  // Calls f(calls) with the endpoint, or with its tap, which has the same
  // calls, if the queue pair is logged.
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
  // Makes a new endpoint, before Connect() or Open().
  void Begin(const iwarp::EndpointPools& pools);
  void Attach(IwarpQp* qp);
  // Writes the receives that the burst has completed so far.
  template <typename Sink>
  void WriteReceives(Sink& sink);
  template <typename Sink>
  FlowResult SettleWith(std::span<const RecvCompletion> receives, Sink& sink);
  // The queue pair is in ERR.
  void CountTerminates();

  ConnectionTable* const table_;
  const tcp::FourTuple tuple_;
  net::Path path_;
  uint32_t known_mtu_ = 0;  // of the path, as the network last knew it
  uint32_t kept_count_;
  // Not initialized: a connection that keeps nothing does not touch its 5 KB.
  struct FreeMemory {
    void operator()(void* memory) const { ::operator delete(memory); }
  };
  std::unique_ptr<iwarp::KeptFpdu[], FreeMemory> kept_;
  std::optional<iwarp::Endpoint> endpoint_;
  IwarpQp* qp_ = nullptr;
  IwarpListener* listener_ = nullptr;
  ConnectionEvents* events_ = nullptr;
  uint64_t user_ = 0;
  bool in_burst_ = false;          // FinishBurst() will settle
  bool sent_counted_ = false;      // our Terminate
  bool received_counted_ = false;  // the peer's

  // These belong to the ConnectionTable.
  uint32_t index_ = 0;
  IwarpConnection* next_due_ = nullptr;  // there is something to deliver
  bool due_ = false;
  uint8_t events_due_ = 0;   // bits of iwarp::Event
  bool owned_ = false;       // has an owner, which will call Forget()
  bool unanswered_ = false;  // counts for the listener's backlog
  bool silent_ = false;      // is in the listener's list, at:
  std::list<IwarpConnection*>::iterator silent_at_;
  bool retired_ = false;  // done; its addresses and ports are free again

  // What it needs to connect again with revision 1 of MPA.
  struct Retry {
    mpa::SetupOptions setup;
    rdmap::Config config;
    std::vector<uint8_t> private_data;
    bool due = false;
  };
  std::unique_ptr<Retry> retry_;
};

}  // namespace urnic
