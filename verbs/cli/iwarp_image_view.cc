#include "verbs/cli/iwarp_image_view.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/base/check.h"
#include "transport/iwarp/qp/image.h"
#include "transport/iwarp/rdmap/image.h"
#include "transport/iwarp/tcp/image_fields.h"
#include "transport/wire/address_text.h"
#include "verbs/cli/image_parts.h"

namespace urnic {
namespace {

// Custody of the frames that an image carries. Their bytes live as long as this
// object.
class ImageFrames final : public FrameKeeper, public FrameMaker {
 public:
  uint32_t Keep(const ReceivedFrame&, FrameHolder& holder) override {
    if (holder.kept == holder.limit) return kRefused;
    ++holder.kept;
    return 0;
  }
  void Release(uint32_t, FrameHolder& holder) override { --holder.kept; }
  ReceivedFrame Make(std::span<const uint8_t> bytes) override {
    const auto& frame = frames_.emplace_back(
        std::make_unique<std::vector<uint8_t>>(bytes.begin(), bytes.end()));
    return {*frame, frame.get()};
  }

 private:
  std::vector<std::unique_ptr<std::vector<uint8_t>>> frames_;
};

class ImageFpdus final : public iwarp::FpduKeeper {
 public:
  explicit ImageFpdus(uint32_t limit) { free_ = limit; }
  uint32_t Take(uint32_t bytes, std::span<uint8_t>& memory) override {
    URNIC_CHECK(free_-- != 0);
    auto& fpdu =
        fpdus_.emplace_back(std::make_unique<std::vector<uint8_t>>(bytes));
    memory = *fpdu;
    return 0;
  }
  void Release(uint32_t) override { ++free_; }

 private:
  std::vector<std::unique_ptr<std::vector<uint8_t>>> fpdus_;
};

struct QpGround : ImageGround {
  explicit QpGround(const ImageShape& shape)
      : ImageGround(shape),
        records(shape.sq_entries),
        answers(shape.replay_slots == 0 ? 0
                                        : std::bit_ceil(shape.replay_slots)),
        qp(shape.limits, sends, records, &queue, answers, &mrs) {}

  std::vector<rdmap::SendRecord> records;
  std::vector<rdmap::Answer> answers;
  rdmap::Qp qp;
};

// What an engine has for its connections, as much as one image of this length
// can need: nothing in it has less than five bytes.
struct ConnectionGround {
  explicit ConnectionGround(size_t image_bytes)
      : most(static_cast<uint32_t>(image_bytes / 5) + 1),
        // While a ring grows, it has twice the memory.
        segments(4 * std::bit_ceil(most / tcp::SegmentSlab::kBlockRecords + 1)),
        ranges(most),
        challenges(NumberKey(), 1),
        pieces(most),
        fpdus(most),
        early(most),
        kept(std::bit_ceil(most)),
        endpoint({.segments = &segments,
                  .ranges = &ranges,
                  .challenges = &challenges,
                  .frames = &frames,
                  .pieces = &pieces,
                  .fpdus = &fpdus,
                  .early = &early},
                 kept) {}

  const uint32_t most;
  tcp::SegmentSlab segments;
  tcp::RangePool ranges;
  tcp::ChallengeBudget challenges;
  ImageFrames frames;
  mpa::HeldPieces pieces;
  ImageFpdus fpdus;
  iwarp::EarlyPool early;
  std::vector<iwarp::KeptFpdu> kept;
  iwarp::Endpoint endpoint;
};

std::string MpaText(const mpa::Agreement& agreement) {
  return FormatText("  MPA %u%s%s%s", agreement.revision,
                    agreement.crc ? ", CRC" : ", no CRC",
                    agreement.send_markers ? ", sends markers" : "",
                    agreement.receive_markers ? ", receives markers" : "");
}

// What the set-up waits for, or its result.
std::string SetUpText(const iwarp::SetUp& set_up) {
  if (set_up.agreed()) return MpaText(set_up.agreement());
  if (set_up.initiates()) {
    return set_up.initiator().state() == mpa::Initiator::State::kWaiting
               ? "  waits for the MPA reply"
               : "";
  }
  using State = mpa::Responder::State;
  const State state = set_up.responder().state();
  if (state == State::kWaiting) return "  waits for the MPA request";
  return state == State::kRequested ? "  waits for the program's answer" : "";
}

std::string TcpText(const tcp::Connection& tcp, const rdmap::Qp* qp) {
  if (tcp.ended() != tcp::End::kNone) {
    return FormatText("  end: %s",
                      tcp::kEndNames[static_cast<size_t>(tcp.ended())]);
  }
  if (tcp.state() <= tcp::State::kSynSent) return "";
  const auto& sender = tcp.sender();
  std::string text = "  out: ";
  if (qp != nullptr) {
    text += FormatText("%u requests and ", qp->requester().under_way());
  }
  text +=
      FormatText("%d bytes unacknowledged, cwnd %u, MSS %u, RTT %.3f ms  in: ",
                 sender.nxt() - sender.una(), sender.cc.window(), sender.mss(),
                 static_cast<double>(sender.smoothed_round_trip().ns()) / 1e6);
  if (qp != nullptr) {
    text += FormatText("MSN %u, %u reads, ", qp->recv_msn(),
                       qp->responder().answers_under_way());
  }
  return text + FormatText("window %u, %u frames held",
                           tcp.receiver().window_bytes(),
                           tcp.receiver().frames_kept());
}

std::string Line(const iwarp::Endpoint& endpoint, const tcp::FourTuple& tuple,
                 const rdmap::Qp* qp) {
  const tcp::Connection& tcp = endpoint.connection();
  std::string line = qp == nullptr ? "" : QpText(*qp, "iWARP") + " ";
  line += FormatText("TCP %-11s port %u peer %s",
                     tcp::kStateNames[static_cast<size_t>(tcp.state())],
                     tuple.local_port,
                     wire::SocketText(tuple.remote, tuple.remote_port).c_str());
  if (tcp.ended() == tcp::End::kNone) line += SetUpText(endpoint.set_up());
  return line + TcpText(tcp, qp) + TimerText(endpoint.deadline());
}

}  // namespace

absl::StatusOr<ImageView> ViewIwarpConnection(std::span<const uint8_t> image) {
  std::optional<ImageShape> shape;
  ImageRefusal refusal = iwarp::ReadImageShape(image, shape);
  if (!refusal.ok()) return absl::InvalidArgumentError(refusal.Text());
  std::optional<QpGround> own;
  if (shape.has_value()) own.emplace(*shape);
  const auto ground = std::make_unique<ConnectionGround>(image.size());
  iwarp::Destination destination = {.frames = &ground->frames,
                                    .qp = own.has_value() ? &own->qp : nullptr,
                                    .answers = UINT32_MAX};
  // The clock begins with the image, so that times are shown as the time left.
  refusal = ReadImage(image, Time(), destination, ground->endpoint);
  if (!refusal.ok()) return absl::InvalidArgumentError(refusal.Text());
  ImageView view = {
      .qpn = std::nullopt,
      .line = Line(ground->endpoint, destination.tuple, destination.qp),
      .members = ""};
  if (own.has_value()) view.qpn = shape->limits.qpn;
  ShowState(ground->endpoint, destination.tuple, Time(), view.members);
  return view;
}

absl::StatusOr<ImageView> ViewIwarpQp(std::span<const uint8_t> image) {
  ImageShape shape;
  ImageRefusal refusal = ReadImageShape(image, shape);
  if (!refusal.ok()) return absl::InvalidArgumentError(refusal.Text());
  QpGround ground(shape);
  refusal = rdmap::ReadImage(image, Time(), ground.qp);
  if (!refusal.ok()) return absl::InvalidArgumentError(refusal.Text());
  ImageView view = {.qpn = shape.limits.qpn,
                    .line = QpText(ground.qp, "iWARP") + " no connection",
                    .members = ""};
  rdmap::ShowState(ground.qp, Time(), view.members);
  return view;
}

absl::StatusOr<ImageView> ViewIwarpCounts(std::span<const uint8_t> image) {
  iwarp::ConnectionCounts counts;
  const ImageRefusal refusal = iwarp::ReadImage(image, counts);
  if (!refusal.ok()) return absl::InvalidArgumentError(refusal.Text());
  return ImageView{.qpn = std::nullopt,
                   .line = FormatText(
                       "TCP %u listeners, %u connections, %u half open, %u in "
                       "TIME-WAIT",
                       counts.listeners, counts.connections, counts.half_open,
                       counts.time_wait),
                   .members = ""};
}

}  // namespace urnic
