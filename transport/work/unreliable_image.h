#pragma once

// The common part of the images of UC and UD queue pairs: the lists of members,
// and the rules between the members.

#include "transport/work/image_codec.h"
#include "transport/work/image_fields.h"
#include "transport/work/unreliable_qp.h"

namespace urnic {

template <>
struct FieldsOf<UnreliableSender> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, limits, config, sq, requests, mrs, counters, head, next,
                  stale, posted, published, drain_limit, psn, running, draining,
                  drain_reported, failed, flushing, failed_status, loaded,
                  length, offset, current);
    f("head", head);
    f("next", next);
    f("stale", stale);
    f("drain_limit", drain_limit);
    f("psn", psn);
    f("running", running);
    f("draining", draining);
    f("drain_reported", drain_reported);
    f("failed", failed);
    f("flushing", flushing);
    f("failed_status", failed_status, uint8_t{UINT8_MAX},
      kCompletionStatusNames);
    f("length", length);
    f("offset", offset);
    // Set at creation, derived, or read again.
    f.Elsewhere(limits, config, sq, requests, mrs, counters, posted, published,
                loaded, current);
  }
  static void Check(ImageReader& f, const UnreliableSender& s, QpState state,
                    uint32_t mtu);
  static void Derive(UnreliableSender& s, const QpConfig& config);
  // False: the program's indices of the ring do not fit.
  static bool Attach(UnreliableSender& s);
};

template <>
struct FieldsOf<UnreliableQp> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, limits, config, sender, rq, mrs, counters, state,
                  recv_status, event);
    f("state", state, QpState::kErr, kQpStateNames);
    f.Group("config", config);
    f("recv_status", recv_status, uint8_t{UINT8_MAX}, kCompletionStatusNames);
    f("event", event, QpEvent::kLastWqeReached, kQpEventNames);
    f.Group("send", sender);
    f.Group("receive_queue", *rq);
    f.Elsewhere(limits, mrs, counters);
  }
  static void Check(ImageReader& f, const UnreliableQp& qp);
  static void Derive(UnreliableQp& qp);
  static void Attach(ImageReader& f, UnreliableQp& qp);
  static ImageShape ShapeOf(const UnreliableQp& qp, QpService service);
};

template <typename Qp>
auto& AsUnreliable(Qp& qp) {
  using Base =
      std::conditional_t<std::is_const_v<Qp>, const UnreliableQp, UnreliableQp>;
  return static_cast<Base&>(qp);
}

// The functions of uc/image.h and ud/image.h.
template <typename Qp>
size_t ExtractUnreliable(const Qp& qp, QpService service, Time now,
                         std::span<uint8_t> out) {
  ImageWriter writer(KindOf(service), now, out);
  const ImageShape shape = FieldsOf<UnreliableQp>::ShapeOf(qp, service);
  writer.Element("shape", shape);
  writer.Element("", qp);
  return writer.Finish();
}

template <typename Qp>
ImageReader ReadInto(std::span<const uint8_t> image, Time now,
                     QpService service, Qp& qp) {
  ImageReader reader(image, now);
  ReadShape(reader, FieldsOf<UnreliableQp>::ShapeOf(qp, service));
  reader.Element("", qp);
  reader.Finish();
  if (reader.ok()) FieldsOf<UnreliableQp>::Check(reader, qp);
  if (reader.ok()) FieldsOf<UnreliableQp>::Derive(qp);
  return reader;
}

template <typename Qp>
ImageRefusal ReadUnreliable(std::span<const uint8_t> image, Time now,
                            QpService service, Qp& qp) {
  return ReadInto(image, now, service, qp).refusal();
}

template <typename Qp>
ImageRefusal InsertUnreliable(std::span<const uint8_t> image, Time now,
                              QpService service, Qp& qp) {
  ImageReader reader = ReadInto(image, now, service, qp);
  if (reader.ok()) FieldsOf<UnreliableQp>::Attach(reader, qp);
  return reader.refusal();
}

}  // namespace urnic
