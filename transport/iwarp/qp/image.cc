#include "transport/iwarp/qp/image.h"

#include <algorithm>

#include "transport/iwarp/qp/image_fields.h"

namespace urnic {
namespace {

// The length of an impossible chunk.
constexpr uint32_t kImpossible = UINT32_MAX;

}  // namespace

bool FieldsOf<iwarp::Endpoint>::RequireAgreement(ImageReader& f,
                                                 const Endpoint& e) {
  bool agreed = false;
  if (e.set_up_.initiates()) {
    using State = mpa::Initiator::State;
    const State state = e.set_up_.initiator().state();
    agreed = state == State::kAgreed || state == State::kTerminate;
  } else {
    using State = mpa::Responder::State;
    const State state = e.set_up_.responder().state();
    agreed = state == State::kAccepted || state == State::kRunning;
  }
  return f.Require(agreed, "phase", static_cast<uint64_t>(e.phase_),
                   "does not fit the set-up");
}

void FieldsOf<iwarp::Endpoint>::CheckPhase(ImageReader& f, const Endpoint& e) {
  using Phase = Endpoint::Phase;
  const auto phase = static_cast<uint64_t>(e.phase_);
  const bool ended = e.tcp_.ended() != tcp::End::kNone;
  f.Require(e.phase_ != Phase::kIdle, "phase", phase, "has not begun");
  f.Require(ended == (e.phase_ == Phase::kClosed), "phase", phase,
            "does not fit the end of TCP");
  f.Require(!ended || e.kept_.empty(), "kept", e.kept_.size(),
            "is for nothing after the end of TCP");
  f.Require(e.phase_ <= Phase::kRunning || e.early_.empty(), "phase", phase,
            "has no FPDUs");
  // Bit 0 does not stand for an event.
  f.Require((e.events_ & 1) == 0 && e.events_ < 1u << 7, "events", e.events_,
            "are unknown");
  if (e.phase_ != Phase::kRunning) return;
  f.Require(e.tcp_.state() == tcp::State::kEstablished, "phase", phase,
            "does not fit the state of TCP");
  f.Require(e.qp_ != nullptr && (e.qp_->state() == QpState::kRts ||
                                 e.qp_->state() == QpState::kErr),
            "phase", phase, "does not fit the queue pair");
}

// While both ends still set MPA up.
void FieldsOf<iwarp::Endpoint>::CheckSetUp(ImageReader& f, const Endpoint& e,
                                           uint32_t answers) {
  const auto phase = static_cast<uint64_t>(e.phase_);
  const iwarp::SetUp& set_up = e.set_up_;
  const mpa::SetupOptions& options = FieldsOf<iwarp::SetUp>::OptionsOf(set_up);
  const uint32_t depth = std::max(options.ird, options.max_ird);
  if (e.qp_ != nullptr) answers = FieldsOf<rdmap::Qp>::Answers(*e.qp_);
  f.Require(depth <= answers, "max_ird", depth,
            "is more than there are answers");
  f.Require(!e.empty_fpdu_due_, "empty_fpdu_due", e.empty_fpdu_due_,
            "comes before the end of the set-up");
  const uint32_t cut = set_up.frame_bytes() - set_up.unsent_bytes();
  f.Require(e.cut_ == e.tcp_first_ + cut, "cut", e.cut_.value(),
            "is not in our frame");
  // An initiator withdraws it when it knows the peer.
  const bool may_promise =
      e.tcp_.peer_is_urnic() || (set_up.initiates() && cut == 0);
  f.Require(!options.promise || may_promise, "promise", options.promise,
            "is made to a peer that is not a uRNIC");
  if (set_up.initiates()) {
    f.Require(FieldsOf<iwarp::SetUp>::IsRequest(set_up), "frame_bytes",
              set_up.frame_bytes(), "are not a request, with the promise");
    const auto state = set_up.initiator().state();
    f.Require(state == mpa::Initiator::State::kWaiting, "phase", phase,
              "does not fit the set-up");
    f.Require(e.qp_ != nullptr && e.qp_->state() != QpState::kRts, "has_qp",
              e.qp_ != nullptr, "does not fit the set-up");
  } else {
    const auto state = set_up.responder().state();
    f.Require(state == mpa::Responder::State::kWaiting ||
                  state == mpa::Responder::State::kRequested,
              "phase", phase, "does not fit the set-up");
    f.Require(e.qp_ == nullptr, "has_qp", 1, "does not fit the set-up");
    f.Require(set_up.frame_bytes() == 0, "frame_bytes", set_up.frame_bytes(),
              "is of a reply that has not been made");
  }
}

uint32_t FieldsOf<iwarp::Endpoint>::FpduBytes(const Endpoint& e, SeqNum begin,
                                              uint64_t source) {
  uint32_t ulpdu_bytes = 0;
  if (source != Endpoint::kEmptyFpdu) {
    if (e.qp_ == nullptr) return 0;
    ulpdu_bytes = FieldsOf<rdmap::Qp>::UlpduBytes(*e.qp_, source);
    if (ulpdu_bytes == 0 || ulpdu_bytes == kImpossible) return ulpdu_bytes;
  }
  return e.ShapeAt(begin, ulpdu_bytes).wire_bytes();
}

uint32_t FieldsOf<iwarp::Endpoint>::KeptBytes(const Endpoint& e,
                                              const iwarp::KeptFpdu& copy) {
  uint32_t bytes = 0;
  uint64_t source = copy.source;
  while (true) {
    const uint32_t fpdu = FpduBytes(e, copy.begin + bytes, source);
    if (fpdu == 0 || fpdu == kImpossible) return fpdu;
    bytes += fpdu;
    if (bytes >= copy.bytes.size()) return bytes;
    if (!FieldsOf<rdmap::Qp>::HasSmallAfter(*e.qp_, source)) return kImpossible;
    source = e.qp_->SmallAfter(source);
  }
}

void FieldsOf<iwarp::Endpoint>::CheckFrameChunk(ImageReader& f,
                                                const Endpoint& e, SeqNum begin,
                                                uint64_t source,
                                                uint32_t bytes) {
  const uint64_t offset = source - Endpoint::kOwnSource;
  const uint32_t cut = e.set_up_.frame_bytes() - e.set_up_.unsent_bytes();
  f.Require(offset + bytes <= cut &&
                begin == e.tcp_first_ + static_cast<uint32_t>(offset),
            "source", source, "is not in our frame");
}

void FieldsOf<iwarp::Endpoint>::CheckChunks(ImageReader& f, const Endpoint& e) {
  using Connection = FieldsOf<tcp::Connection>;
  using Kept = FieldsOf<iwarp::KeptFpdus>;
  if (!Connection::HasChunks(e.tcp_)) {
    f.Require(e.cut_ == e.tcp_first_, "cut", e.cut_.value(),
              "is not the beginning of the stream");
    f.Require(e.kept_.empty(), "kept", e.kept_.size(), "is more than was sent");
    return;
  }
  uint32_t kept = 0;
  const auto check = [&](SeqNum begin, uint64_t source, uint32_t bytes,
                         bool begun) {
    if (Endpoint::IsFrame(source)) {
      CheckFrameChunk(f, e, begin, source, bytes);
      return;
    }
    f.Require(e.phase_ != Endpoint::Phase::kSetUp, "source", source,
              "comes before the end of the set-up");
    const iwarp::KeptFpdu* copy = Kept::At(e.kept_, kept);
    if (copy != nullptr && copy->begin == begin) {
      ++kept;
      f.Require(copy->source == source && copy->bytes.size() == bytes &&
                    (copy->written || !begun),
                "source", copy->source, "is not kept as it was sent");
      if (copy->written) return;
    } else {
      const auto kind = ddp::Source::Unpack(source).kind;
      f.Require(kind != ddp::SourceKind::kAnswer, "source", source,
                "is an answer that is not kept");
    }
    const uint32_t made = copy != nullptr && copy->begin == begin
                              ? KeptBytes(e, *copy)
                              : FpduBytes(e, begin, source);
    f.Require(made == bytes || made == 0, "source", source,
              "does not have the length of its chunk");
  };
  Connection::ForChunks(e.tcp_, check);
  f.Require(kept == e.kept_.size(), "kept", e.kept_.size(),
            "is more than was sent");
  f.Require(e.cut_ == Connection::EndOfChunks(e.tcp_), "cut", e.cut_.value(),
            "is not the end of the last chunk");
}

void FieldsOf<iwarp::Endpoint>::CheckEarly(ImageReader& f, const Endpoint& e) {
  using Early = FieldsOf<iwarp::EarlyFpdus>;
  const mpa::DelimiterConfig framing = e.PeerFraming();
  const iwarp::EarlyFpdu* fpdu = Early::First(e.early_);
  const auto check = [&](SeqNum begin, uint32_t bytes) {
    const SeqNum end = begin + bytes;
    f.Require(framing.early != mpa::Early::kNone, "early", 1,
              "is not possible with this peer");
    while (f.ok() && begin != end) {
      if (!f.Require(fpdu != nullptr && fpdu->end - end <= 0, "bytes", bytes,
                     "have FPDUs without headers")) {
        return;
      }
      const mpa::FpduShape shape = {
          .ulpdu_bytes = fpdu->header_bytes + fpdu->payload_bytes,
          .phase = static_cast<uint32_t>(begin - framing.start) %
                   wire::kMarkerSpacing,
          .markers = framing.markers};
      begin = begin + shape.wire_bytes();
      f.Require(fpdu->end == begin, "end", fpdu->end.value(),
                "is not the end of its FPDU");
      fpdu = Early::Next(e.early_, *fpdu);
    }
  };
  FieldsOf<tcp::Connection>::ForEarlyRanges(e.tcp_, check);
  f.Require(fpdu == nullptr, "end", fpdu == nullptr ? 0 : fpdu->end.value(),
            "is not of what is early");
}

void FieldsOf<iwarp::Endpoint>::Check(ImageReader& f, const Endpoint& e,
                                      uint32_t answers) {
  FieldsOf<tcp::Connection>::Check(f, e.tcp_);
  if (f.ok()) CheckPhase(f, e);
  if (f.ok() && e.phase_ == Endpoint::Phase::kSetUp) CheckSetUp(f, e, answers);
  if (f.ok() && e.qp_ != nullptr) FieldsOf<rdmap::Qp>::Check(f, *e.qp_);
  // After the last message, no more bytes are taken.
  const bool takes = e.phase_ == Endpoint::Phase::kSetUp ||
                     (e.phase_ == Endpoint::Phase::kRunning &&
                      e.qp_->state() == QpState::kRts);
  if (f.ok() && takes) CheckEarly(f, e);
  if (f.ok() && e.tcp_.ended() == tcp::End::kNone) CheckChunks(f, e);
}

void FieldsOf<iwarp::Endpoint>::Derive(Endpoint& e, Time now) {
  e.now_ = now;
  e.tcp_first_ = e.tcp_.config_.iss + 1;
  e.send_start_ = e.tcp_first_ + e.set_up_.frame_bytes();
}

namespace iwarp {

namespace {

using Fields = FieldsOf<Endpoint>;

void RequireKind(ImageReader& reader) {
  reader.Require(reader.kind() == ImageKind::kIwarp, "kind",
                 static_cast<uint64_t>(reader.kind()),
                 "is not an iWARP connection's");
}

// Sets the addresses and ports that the image has.
void Read(ImageReader& reader, const Destination& destination,
          Endpoint& endpoint, tcp::FourTuple& tuple) {
  URNIC_CHECK(Fields::IsNew(endpoint));
  RequireKind(reader);
  Fields::Use(endpoint, destination.qp);
  reader.Element("endpoint", endpoint);
  reader.Element("addresses", tuple);
  reader.Finish();
  if (!reader.ok()) return;
  const tcp::ConnectionConfig& config = Fields::ConfigOf(endpoint);
  tuple.local_port = config.local_port;
  tuple.remote_port = config.remote_port;
  Fields::Derive(endpoint, reader.now());
  Fields::Check(reader, endpoint, destination.answers);
}

void RequireTuple(ImageReader& reader, const tcp::FourTuple& found,
                  const tcp::FourTuple& wanted) {
  constexpr const char* kRule = "belongs to another connection";
  reader.Require(found.local_port == wanted.local_port, "local_port",
                 found.local_port, kRule);
  reader.Require(found.remote_port == wanted.remote_port, "remote_port",
                 found.remote_port, kRule);
  reader.Require(found.local == wanted.local, "local", found.local.word(1),
                 kRule);
  reader.Require(found.remote == wanted.remote, "remote", found.remote.word(1),
                 kRule);
}

}  // namespace

size_t ExtractImage(const Endpoint& endpoint, const tcp::FourTuple& tuple,
                    Time now, std::span<uint8_t> out) {
  URNIC_CHECK(!Fields::IsNew(endpoint));
  ImageWriter writer(ImageKind::kIwarp, now, out);
  writer.Element("endpoint", endpoint);
  writer.Element("addresses", tuple);
  return writer.Finish();
}

ImageRefusal ReadImageShape(std::span<const uint8_t> image,
                            std::optional<ImageShape>& out) {
  ImageReader reader(image, Time());
  RequireKind(reader);
  bool has_qp = false;
  reader.Extra("has_qp", has_qp);
  out.reset();
  if (has_qp) {
    ImageShape& shape = out.emplace();
    shape.service = QpService::kIwarp;
    reader.Element("shape", shape);
  }
  return reader.refusal();
}

ImageRefusal InsertImage(std::span<const uint8_t> image, Time now,
                         const Destination& destination, Endpoint& endpoint) {
  ImageReader reader(image, now, destination.frames);
  tcp::FourTuple tuple;
  Read(reader, destination, endpoint, tuple);
  if (reader.ok()) RequireTuple(reader, tuple, destination.tuple);
  if (reader.ok() && destination.qp != nullptr) {
    FieldsOf<rdmap::Qp>::Attach(reader, *destination.qp);
  }
  return reader.refusal();
}

ImageRefusal ReadImage(std::span<const uint8_t> image, Time now,
                       Destination& destination, Endpoint& endpoint) {
  ImageReader reader(image, now, destination.frames);
  Read(reader, destination, endpoint, destination.tuple);
  return reader.refusal();
}

void ShowState(const Endpoint& endpoint, const tcp::FourTuple& tuple, Time now,
               std::string& out) {
  ImagePrinter printer(now, out);
  printer.Element("endpoint", endpoint);
  printer.Element("addresses", tuple);
}

size_t ExtractImage(const ConnectionCounts& counts, std::span<uint8_t> out) {
  ImageWriter writer(ImageKind::kIwarpCounts, Time(), out);
  writer.Element("iwarp", counts);
  return writer.Finish();
}

ImageRefusal ReadImage(std::span<const uint8_t> image, ConnectionCounts& out) {
  ImageReader reader(image, Time());
  reader.Require(reader.kind() == ImageKind::kIwarpCounts, "kind",
                 static_cast<uint64_t>(reader.kind()),
                 "does not count connections");
  reader.Element("iwarp", out);
  reader.Finish();
  return reader.refusal();
}

void ShowState(const ConnectionCounts& counts, std::string& out) {
  ImagePrinter(Time(), out).Element("iwarp", counts);
}

}  // namespace iwarp
}  // namespace urnic
