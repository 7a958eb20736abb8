#pragma once

// A queue pair of iWARP: the core (rdmap::Qp), its rings and its memory. It
// sends and receives no packets itself: while it has a connection, that flow
// does so for it.
//
// Only programs see its number, which is never on the wire.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "datapath/engine/engine_qp.h"
#include "datapath/engine/flow_sink.h"
#include "transport/iwarp/rdmap/qp.h"
#include "transport/mem/mr_table.h"
#include "transport/work/image.h"

namespace urnic {

class IwarpConnection;
class IwarpInputTap;

// Created and destroyed through QpTable. Token holder only.
class IwarpQp final : public EngineQp {
 public:
  // A sink for the completions of a core. If `qp` is null, there must be none.
  template <typename Sink>
  struct Writer {
    void Sent(const SendCompletion& done) { sink.WriteSent(*qp, done); }
    void Received(const RecvCompletion& done) {
      sink.WriteReceived(*qp, *qp->recv_cq, done);
    }
    void Flushed(const RecvCompletion& done) { Received(done); }

    IwarpQp* qp;
    Sink& sink;
  };

  IwarpQp(const EngineQpConfig& config, mem::MrTable* mrs);
  // Ends its connection, which exists without it until the peer has
  // acknowledged the end.
  ~IwarpQp() override;

  static EngineQpBytes BytesOf(uint32_t sq_entries) {
    return {.qp = sizeof(IwarpQp),
            .records = sq_entries * sizeof(rdmap::SendRecord)};
  }

  // REQUIRES: kind() is kIwarpQp.
  static IwarpQp& Of(Flow& flow) { return static_cast<IwarpQp&>(flow); }

  // Allowed are: from RESET to INIT; to ERR, which ends its connection; to
  // RESET, which aborts its connection unless that is ending already. Only a
  // connection moves it to RTS. Only `access` of `config` is used, when a
  // connection begins.
  FlowResult Modify(QpState target, const QpConfig& config,
                    FlowSink& sink) override;
  void Reconfigure(const QpConfig& config) override { config_ = config; }
  const QpConfig& config() const override { return config_; }
  // The counters of the TCP segments of its connections.
  RequesterCounters counters() const override;
  void DescribeWork(Time now, FactWriter& facts) const override;
  void DescribeFailure(Failure& failure) const override;
  // The image includes its connection, if it has one.
  void AppendImage(Time now, std::string& out) const override;
  bool LogInputs(std::shared_ptr<InputLog> log, Time now) override;
  // Restores it from an image without a connection. REQUIRES: it is new.
  ImageRefusal BecomeImage(std::span<const uint8_t> image, Time now);

  // Its current state; state() is that of the last FlowResult.
  QpState core_state() const { return core_.state(); }
  const rdmap::Qp& core() const { return core_; }

  // --- As a flow without a connection: it only flushes -----------------------

  const net::Path* common_path() const override { return nullptr; }
  FlowResult OnTimer(Time, FlowSink& sink) override { return Settle(sink); }
  FlowResult Settle(FlowSink& sink) override { return SettleWith(sink); }
  FlowResult Settle(TracedSink& sink) override { return SettleWith(sink); }

  // --- For its connection ----------------------------------------------------

  rdmap::Qp& mutable_core() { return core_; }
  // Null: it is not logged.
  IwarpInputTap* tap() const;
  // Null: it has none, or no longer.
  IwarpConnection* connection() const { return connection_; }
  void set_connection(IwarpConnection* connection);
  // Allocates memory for this many reads and atomics of the peer at a time, if
  // there is less. REQUIRES: the state is RESET or INIT.
  void MakeRoomForReads(uint32_t reads);

 private:
  template <typename Sink>
  FlowResult SettleWith(Sink& sink);

  QpReceives receives_;
  PlacedArray<rdmap::SendRecord> records_;
  std::unique_ptr<rdmap::Answer[]> answers_;
  uint32_t answer_count_ = 0;
  rdmap::Qp core_;
  QpConfig config_;
  IwarpConnection* connection_ = nullptr;
  RequesterCounters past_;  // of its earlier connections
};

}  // namespace urnic
