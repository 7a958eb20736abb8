#include "verbs/cli/image_view.h"

#include <bit>
#include <vector>

#include "transport/cm/image.h"
#include "transport/rc/image.h"
#include "transport/uc/image.h"
#include "transport/ud/image.h"
#include "transport/wire/address_text.h"
#include "verbs/cli/image_parts.h"
#include "verbs/cli/iwarp_image_view.h"

namespace urnic {
namespace {

std::string Line(const rc::Qp& qp) {
  const rc::SendState& s = qp.send_state();
  std::string line = FormatText(
      "%s peer 0x%06x  out: PSN 0x%06x, %u requests and %d packets "
      "unacknowledged  in: PSN 0x%06x, MSN %u",
      QpText(qp, qp.limits().xrc ? "XRC" : "RC").c_str(), qp.config().dest_qpn,
      s.sent_psn.value(), s.assigned - s.una, s.sent_psn - s.una_psn,
      qp.recv_psn().value(), qp.responder().msn());
  if (s.rnr_waiting) line += "  receiver not ready";
  return line + TimerText(qp.NextDeadline());
}

std::string Line(const uc::Qp& qp) {
  return FormatText("%s peer 0x%06x  out: PSN 0x%06x  in: PSN 0x%06x",
                    QpText(qp, "UC").c_str(), qp.config().dest_qpn,
                    qp.send_psn().value(), qp.recv_psn().value());
}

std::string Line(const ud::Qp& qp) {
  return FormatText("%s Q_Key 0x%08x  out: PSN 0x%06x",
                    QpText(qp, "UD").c_str(), qp.config().qkey,
                    qp.send_psn().value());
}

std::string Line(const cm::Connection& c) {
  std::string line = FormatText(
      "CM 0x%08x %-13s peer %s 0x%08x", c.local_comm_id, cm::NameOf(c.state),
      wire::IpText(c.mad_path.remote).c_str(), c.remote_comm_id);
  if (c.has_local_qpn) line += FormatText("  QP 0x%06x", c.local_qpn.value);
  line += FormatText("  service 0x%016llx",
                     static_cast<unsigned long long>(c.service_id));
  if (c.orphan) line += "  closed here";
  line += TimerText(c.deadline);
  if (!c.deadline.IsInfinite() && c.state != cm::State::kTimewait) {
    line += FormatText(", %u retries left", c.retries_left);
  }
  return line;
}

absl::StatusOr<ImageView> ViewConnection(std::span<const uint8_t> image) {
  cm::MovedConnection moved;
  const ImageRefusal refusal = cm::ReadImage(image, Time(), moved);
  if (!refusal.ok()) return absl::InvalidArgumentError(refusal.Text());
  const cm::Connection& c = moved.connection;
  ImageView view{.qpn = std::nullopt, .line = Line(c), .members = ""};
  if (c.has_local_qpn) view.qpn = c.local_qpn.value;
  cm::ShowState(moved, Time(), view.members);
  return view;
}

template <typename Qp>
absl::StatusOr<ImageView> View(std::span<const uint8_t> image, Qp& qp) {
  // The clock begins with the image, so that times are shown as the time left.
  const ImageRefusal refusal = ReadImage(image, Time(), qp);
  if (!refusal.ok()) return absl::InvalidArgumentError(refusal.Text());
  ImageView view{.qpn = qp.limits().qpn, .line = Line(qp), .members = ""};
  ShowState(qp, Time(), view.members);
  return view;
}

}  // namespace

std::string TimerText(Time due) {
  if (due.IsInfinite()) return "";
  return FormatText("  timer in %.3f ms", static_cast<double>(due.ns()) / 1e6);
}

absl::StatusOr<ImageView> ViewImage(std::span<const uint8_t> image) {
  ImageKind kind = ImageKind::kRc;
  ImageRefusal refusal = ReadImageKind(image, kind);
  if (!refusal.ok()) return absl::InvalidArgumentError(refusal.Text());
  switch (kind) {
    case ImageKind::kConnection:
      return ViewConnection(image);
    case ImageKind::kIwarp:
      return ViewIwarpConnection(image);
    case ImageKind::kIwarpQp:
      return ViewIwarpQp(image);
    case ImageKind::kIwarpCounts:
      return ViewIwarpCounts(image);
    default:
      break;
  }
  ImageShape shape;
  refusal = ReadImageShape(image, shape);
  if (!refusal.ok()) return absl::InvalidArgumentError(refusal.Text());
  ImageGround g(shape);
  switch (shape.service) {
    case QpService::kUc: {
      uc::Qp qp(shape.limits, g.sends, &g.queue, &g.mrs, &g.counters);
      return View(image, qp);
    }
    case QpService::kUd: {
      ud::Qp qp(shape.limits, g.sends, &g.queue, &g.mrs, &g.counters);
      return View(image, qp);
    }
    default: {
      std::vector<rc::SendRecord> records(shape.sq_entries);
      std::vector<rc::ReplaySlot> replay(
          shape.replay_slots == 0 ? 0 : std::bit_ceil(shape.replay_slots));
      cc::SharedPath path;
      rc::RecoveryPool pool(rc::kNoRecovery, nullptr, &g.counters);
      rc::Qp qp(shape.limits, g.sends, records, replay, &g.queue, &g.mrs,
                &pool);
      qp.Join(&path);
      return View(image, qp);
    }
  }
}

}  // namespace urnic
