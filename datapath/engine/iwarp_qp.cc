#include "datapath/engine/iwarp_qp.h"

#include <bit>
#include <span>
#include <utility>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/iwarp_input_tap.h"
#include "datapath/engine/qp_facts.h"
#include "datapath/engine/traced_sink.h"
#include "transport/base/check.h"
#include "transport/base/mutation.h"
#include "transport/iwarp/rdmap/image.h"

namespace urnic {

IwarpQp::IwarpQp(const EngineQpConfig& config, mem::MrTable* mrs)
    : EngineQp(Kind::kIwarpQp, config),
      receives_(config),
      records_(config.place.records, config.sq.entries()),
      core_(config.limits, config.sq,
            std::span(records_.get(), config.sq.entries()), &receives_.queue,
            {}, mrs) {}

IwarpQp::~IwarpQp() {
  if (connection_ != nullptr) {
    connection_->table().DetachQp(*connection_, /*abort=*/false);
  }
}

FlowResult IwarpQp::Modify(QpState target, const QpConfig& config,
                           FlowSink& sink) {
  URNIC_CHECK(target == QpState::kReset || target == QpState::kInit ||
              target == QpState::kErr);
  config_ = config;
  if (target == QpState::kReset && connection_ != nullptr) {
    // A connection that is closing already may close in order.
    const bool abort = core_.state() != QpState::kErr;
    connection_->table().DetachQp(*connection_, abort);
  }
  if (__builtin_expect(is_logged_, 0)) {
    tap()->Modify(target);
  } else {
    core_.Modify(target, {});
  }
  // First the completions of the flushed requests, then the end of the
  // connection.
  const FlowResult result = Settle(sink);
  MUTATION_SKIPS(device_err_leaves_connection)
  if (target == QpState::kErr && connection_ != nullptr) {
    connection_->table().OnQpFailed(*connection_);
  }
  return result;
}

template <typename Sink>
FlowResult IwarpQp::SettleWith(Sink& sink) {
  Writer<Sink> writer{this, sink};
  FlowResult result = __builtin_expect(is_logged_, 0)
                          ? tap()->SettleQp(writer)
                          : core_.Settle({}, writer);
  result.has_work = false;
  return result;
}

template FlowResult IwarpQp::SettleWith(FlowSink&);
template FlowResult IwarpQp::SettleWith(TracedSink&);

RequesterCounters IwarpQp::counters() const {
  RequesterCounters all = past_;
  if (connection_ != nullptr) all.Add(connection_->counters());
  return all;
}

IwarpInputTap* IwarpQp::tap() const {
  return static_cast<IwarpInputTap*>(tap_);
}

bool IwarpQp::LogInputs(std::shared_ptr<InputLog> log, Time now) {
  std::unique_ptr<IwarpInputTap> tap;
  if (log != nullptr)
    tap = std::make_unique<IwarpInputTap>(std::move(log), &core_);
  IwarpInputTap* const begun = tap.get();
  SetTap(std::move(tap));
  if (connection_ != nullptr) {
    connection_->FollowLog(now);
  } else if (begun != nullptr) {
    begun->Begin(nullptr, {}, now);
  }
  return true;
}

void IwarpQp::set_connection(IwarpConnection* connection) {
  if (connection_ != nullptr) {
    past_.Add(connection_->counters());
    if (is_logged_) tap()->Part();
  }
  connection_ = connection;
  serving_flow_ = this;
  MUTATION_SKIPS(device_doorbell_misses_connection)
  if (connection != nullptr) serving_flow_ = connection;
}

void IwarpQp::MakeRoomForReads(uint32_t reads) {
  URNIC_CHECK(core_.state() <= QpState::kInit);
  if (reads <= answer_count_) return;
  const uint32_t count = std::bit_ceil(reads);
  std::unique_ptr<rdmap::Answer[]> larger(new rdmap::Answer[count]);
  core_.UseAnswers({larger.get(), count});
  answers_ = std::move(larger);
  answer_count_ = count;
}

void IwarpQp::DescribeWork(Time now, FactWriter& facts) const {
  facts.Add("unacked-requests", core_.requester().under_way());
  facts.Add("msn", core_.recv_msn());
  facts.Add("reads-of-peer", core_.responder().answers_under_way());
  AddCounters(counters(), facts);
  if (connection_ != nullptr) urnic::DescribeWork(*connection_, now, facts);
}

void IwarpQp::DescribeFailure(Failure& failure) const {
  failure.iwarp = true;
  const rdmap::Requester& requester = core_.requester();
  DescribeRequest({core_.limits(), requester.mrs(), requester.sq(),
                   requester.head(), receives_.queue},
                  failure);
  if (failure.code == ErrorCode::kQpAccess ||
      failure.code == ErrorCode::kWeTerminated) {
    DescribeRefused(core_.responder().refused(), requester.mrs(), failure);
  } else if (failure.code == ErrorCode::kPeerTerminated) {
    DescribeRefusedByPeer(core_.refused_by_peer(), failure);
  }
  if (connection_ == nullptr) return;
  failure.has_peer = true;
  failure.remote = connection_->tuple().remote;
  failure.remote_port = connection_->tuple().remote_port;
}

void IwarpQp::AppendImage(Time now, std::string& out) const {
  if (connection_ != nullptr) return connection_->AppendImage(now, out);
  AppendImageTo(out, [&](std::span<uint8_t> to) {
    return rdmap::ExtractImage(core_, now, to);
  });
}

ImageRefusal IwarpQp::BecomeImage(std::span<const uint8_t> image, Time now) {
  return rdmap::InsertImage(image, now, core_);
}

}  // namespace urnic
