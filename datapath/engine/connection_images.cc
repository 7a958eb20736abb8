// Images of connections (transport/iwarp/qp/image.h): to show them, and to
// continue them in another engine.

#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/connection_table.h"
#include "datapath/engine/frame_custody.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"
#include "transport/iwarp/qp/image.h"

namespace urnic {

std::optional<uint32_t> ConnectionTable::AppendImages(uint32_t place,
                                                      size_t enough,
                                                      std::string& out) const {
  for (; place < connections_.size(); ++place) {
    if (out.size() >= enough) return place;
    const IwarpConnection* const connection = connections_[place].get();
    if (connection == nullptr || connection->retired_) continue;
    if (connection->qp() == nullptr) {
      connection->AppendImage(*parts_.now, out);
    }
  }
  const iwarp::ConnectionCounts counts = {
      .listeners = listeners(),
      .connections = static_cast<uint32_t>(size()),
      .half_open = half_open(),
      .time_wait = time_wait()};
  if ((counts.listeners | counts.connections | counts.half_open |
       counts.time_wait) != 0) {
    AppendImageTo(out, [&](std::span<uint8_t> to) {
      return iwarp::ExtractImage(counts, to);
    });
  }
  return std::nullopt;
}

absl::StatusOr<std::string> ConnectionTable::Extract(
    IwarpConnection& connection) {
  if (connection.due_) {
    return Refusal(
        ErrorCode::kConnectionBusy,
        "the connection has an event that its owner has not been told");
  }
  if (connection.retry_ != nullptr && connection.retry_->due) {
    return Refusal(ErrorCode::kConnectionBusy,
                   "the connection is between two attempts to connect");
  }
  std::string image;
  connection.AppendImage(*parts_.now, image);
  Drop(connection);
  return image;
}

absl::StatusOr<IwarpConnection*> ConnectionTable::Insert(
    IwarpQp& qp, const ConnectConfig& config, std::span<const uint8_t> image) {
  const tcp::FourTuple tuple = config.tuple();
  if (full()) return NoRoom();
  if (Find(tuple) != nullptr) {
    return Refusal(ErrorCode::kTcpPortTaken,
                   absl::StrCat("TCP port ", config.local_port,
                                " has a connection to this port of the peer"));
  }
  IwarpConnection& connection = Add(tuple, config.path);
  connection.set_owner(config.events, config.user);
  connection.owned_ = true;
  connection.Attach(&qp);
  TraceConnection(TracePoint::kConnectionServes, connection);
  const ImageRefusal refusal = iwarp::InsertImage(
      image, *parts_.now,
      {.tuple = tuple, .frames = parts_.frames, .qp = &qp.mutable_core()},
      *connection.endpoint_);
  if (!refusal.ok()) {
    Drop(connection);
    return Refusal(ErrorCode::kImageRefused,
                   absl::StrCat("the image of a connection of queue pair ",
                                qp.qpn(), " is refused: ", refusal.Text()));
  }
  RestoreRetry(connection);
  // The link that it had before may have had a larger MTU.
  connection.endpoint_->OnLinkMtu(link_mtu_, *parts_.now);
  connection.FollowLog(*parts_.now);
  FlowResult result = connection.Settle(*parts_.sink);
  // The owner was told of the failure before the move.
  if (result.state == QpState::kErr) parts_.flows->WatchLatePosts(connection);
  // Requests may have been posted meanwhile; Transmit() finds them.
  result.has_work |= result.state < QpState::kSqe;
  parts_.flows->Apply(connection, result);
  return &connection;
}

// The peer may still turn out to know only revision 1 of MPA.
void ConnectionTable::RestoreRetry(IwarpConnection& connection) {
  const iwarp::SetUp& set_up = connection.set_up();
  if (!set_up.initiates()) return;
  const mpa::Initiator& initiator = set_up.initiator();
  if (initiator.state() != mpa::Initiator::State::kWaiting ||
      initiator.options().revision == 1) {
    return;
  }
  std::vector<uint8_t> frame(set_up.frame_bytes());
  set_up.CopyFrame(0, frame);
  mpa::SetupReader reader(mpa::SetupKind::kRequest, initiator.promises());
  (void)reader.Add(frame);
  const auto private_data = reader.frame().private_data;
  connection.retry_ =
      std::make_unique<IwarpConnection::Retry>(IwarpConnection::Retry{
          .setup = initiator.options(),
          .config = connection.endpoint_->qp_config(),
          .private_data = {private_data.begin(), private_data.end()}});
}

void ConnectionTable::Drop(IwarpConnection& connection) {
  URNIC_CHECK(!connection.due_ && !connection.unanswered_);
  parts_.flows->Remove(connection);
  RemoveFromIndex(connection);
  connection.Attach(nullptr);
  Destroy(connection);
}

}  // namespace urnic
