#pragma once

// The lists of members of an iWARP connection (transport/work/image_codec.h).

#include "transport/iwarp/mpa/image_fields.h"
#include "transport/iwarp/qp/image.h"
#include "transport/iwarp/rdmap/image_fields.h"
#include "transport/iwarp/tcp/image_fields.h"

namespace urnic {

// The ports are in the configuration of TCP.
template <>
struct FieldsOf<tcp::FourTuple> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, local, remote, local_port, remote_port);
    f.Bytes("local", std::span(local.bytes));
    f.Bytes("remote", std::span(remote.bytes));
    f.Elsewhere(local_port, remote_port);
  }
};

template <>
struct FieldsOf<iwarp::ConnectionCounts> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, listeners, connections, half_open, time_wait);
    f("listeners", listeners);
    f("connections", connections);
    f("half_open", half_open);
    f("time_wait", time_wait);
  }
};

template <>
struct FieldsOf<iwarp::SetUp> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, role, frame, frame_bytes, cut_bytes);
    uint8_t which = static_cast<uint8_t>(role.index());
    f("role", which);
    f("frame_bytes", frame_bytes);
    f("cut_bytes", cut_bytes);
    f.Elsewhere(frame);
    if (!f.Require(which == kInitiator || which == kResponder, "role", which,
                   "is neither that of the initiator nor of the responder") ||
        !f.Require(frame_bytes <= frame.size(), "frame_bytes", frame_bytes,
                   "is more than a frame has") ||
        !f.Require(cut_bytes <= frame_bytes, "cut_bytes", cut_bytes,
                   "is more than the frame has")) {
      return;
    }
    f.Octets("frame", std::span(frame).first(frame_bytes));
    if (which == kInitiator) {
      VisitRole<mpa::Initiator>(f, role);
    } else {
      VisitRole<mpa::Responder>(f, role);
    }
  }
  static const mpa::SetupOptions& OptionsOf(const iwarp::SetUp& s) {
    return s.initiates() ? s.initiator().options_ : s.responder().options_;
  }
  // Whether our frame is a request, with the promise if that is made.
  static bool IsRequest(const iwarp::SetUp& s) {
    const bool promise = OptionsOf(s).promise;
    mpa::SetupReader reader(mpa::SetupKind::kRequest, promise);
    const auto frame = std::span(s.frame_).first(s.frame_bytes_);
    return reader.Add(frame) == frame.size() &&
           reader.state() == mpa::SetupReader::State::kComplete &&
           reader.frame().promise == promise;
  }

 private:
  // The places of the variant.
  static constexpr uint8_t kInitiator = 1;
  static constexpr uint8_t kResponder = 2;

  template <typename Role, typename F, typename Variant>
  static void VisitRole(F& f, Variant& role) {
    if constexpr (F::kReads) {
      mpa::SetupOptions options;
      f.Element("setup", options);
      if (!f.ok()) return;
      if constexpr (std::is_same_v<Role, mpa::Initiator>) {
        role.template emplace<Role>(options);
      } else {
        role.template emplace<Role>(options, f.now());
      }
    } else {
      f.Element("setup", std::get_if<Role>(&role)->options_);
    }
    f.Element("negotiation", *std::get_if<Role>(&role));
  }
};

template <>
struct FieldsOf<iwarp::EarlyFpdu> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, end, payload_bytes, next, header_bytes, header_copy);
    f("end", end);
    f("payload_bytes", payload_bytes);
    f("header_bytes", header_bytes);
    f.Elsewhere(next, header_copy);
    if (!f.Require(header_bytes <= sizeof(header_copy), "header_bytes",
                   header_bytes, "is more than a header has")) {
      return;
    }
    f.Octets("header", std::span(header_copy).first(header_bytes));
  }
};

template <>
struct FieldsOf<iwarp::EarlyFpdus> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, pool, head, tail, count);
    uint32_t fpdus = count;
    f("fpdus", fpdus);
    f.Elsewhere(pool, head, tail);
    if constexpr (F::kReads) {
      for (uint32_t i = 0; f.ok() && i != fpdus; ++i) Read(f, s);
    } else {
      for (uint32_t i = head; i != s.kNone; i = s.At(i).next) {
        f.Element("early_fpdu", s.At(i));
      }
    }
  }
  // In the order of the stream; null: there are no more.
  static const iwarp::EarlyFpdu* First(const iwarp::EarlyFpdus& s) {
    return At(s, s.head_);
  }
  static const iwarp::EarlyFpdu* Next(const iwarp::EarlyFpdus& s,
                                      const iwarp::EarlyFpdu& fpdu) {
    return At(s, fpdu.next);
  }

 private:
  static const iwarp::EarlyFpdu* At(const iwarp::EarlyFpdus& s,
                                    uint32_t index) {
    return index == s.kNone ? nullptr : &s.At(index);
  }
  static void Read(ImageReader& f, iwarp::EarlyFpdus& s) {
    iwarp::EarlyFpdu fpdu;
    f.Element("early_fpdu", fpdu);
    if (!f.ok()) return;
    const std::span<const uint8_t> header = fpdu.header();
    ddp::ReceivedSegment segment;
    const bool is_header =
        !ddp::ParseSegment({&header, 1}, segment) && segment.payload_bytes == 0;
    segment.payload_bytes = fpdu.payload_bytes;
    if (f.Require(fpdu.payload_bytes <= UINT16_MAX, "payload_bytes",
                  fpdu.payload_bytes, "is more than an FPDU has") &&
        f.Require(is_header && FieldsOf<rdmap::Qp>::MayBeEarly(segment),
                  "header_bytes", fpdu.header_bytes,
                  "are not of a segment that can wait") &&
        f.Require(s.empty() || fpdu.end - s.At(s.tail_).end > 0, "end",
                  fpdu.end.value(), "does not follow the FPDU before") &&
        f.Require(s.HasRoom(1), "fpdus", s.count_ + 1,
                  "is more than there is room for")) {
      s.Insert(fpdu.end, segment);
    }
  }
};

// The copy follows, if it has been made.
template <>
struct FieldsOf<iwarp::KeptFpdu> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, begin, number, source, bytes, written);
    f("begin", begin);
    f.Hex("source", source);
    f("written", written);
    f.Elsewhere(number, bytes);
    if (written) f.Octets("fpdu", bytes);
  }
};

template <>
struct FieldsOf<iwarp::KeptFpdus> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, keeper, records, first, end);
    f.Elsewhere(keeper, records, first, end);  // VisitAll()
  }
  // Null: there are not so many.
  static const iwarp::KeptFpdu* At(const iwarp::KeptFpdus& s, uint32_t place) {
    if (place >= s.size()) return nullptr;
    return &s.records_[(s.first_ + place) & (s.records_.size() - 1)];
  }
  // `limit`: the longest FPDU.
  template <typename F, typename S>
  static void VisitAll(F& f, S& s, uint32_t limit) {
    uint32_t count = s.end_ - s.first_;
    f.Extra("kept", count);
    for (uint32_t i = 0; f.ok() && i != count; ++i) {
      const size_t at = (s.first_ + i) & (s.records_.size() - 1);
      auto bytes =
          F::kReads ? 0 : static_cast<uint32_t>(s.records_[at].bytes.size());
      f.Extra("bytes", bytes);
      if constexpr (F::kReads) {
        if (!f.Require(bytes != 0 && bytes <= limit, "bytes", bytes,
                       "is not the length of an FPDU") ||
            !f.Require(s.has_room(), "kept", count,
                       "is more than there is room for")) {
          return;
        }
        s.Add(SeqNum(), 0, bytes);
      }
      f.Element("kept_fpdu", s.records_[at]);
    }
  }
};

template <>
struct FieldsOf<iwarp::Endpoint> {
  using Endpoint = iwarp::Endpoint;

  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, pools, tcp_connection, set_up, delimiter, early, kept,
                  qp, qp_config, phase, failure, verdict, position, events,
                  connected, request_reported, end_reported, empty_fpdu_due,
                  close_due, abort_due, drained, starved, in_message,
                  small_messages, retry_at, hold_until, answered, timeouts, now,
                  tcp_first, cut, send_start, peer_start);
    static constexpr const char* kPhases[] = {"idle", "set_up", "running",
                                              "closing", "closed"};
    static constexpr const char* kFailures[] = {
        "none", "refused", "timed_out", "reset", "protocol", "aborted"};
    bool has_qp = qp != nullptr;
    f("has_qp", has_qp);
    if (!f.Require(has_qp == (qp != nullptr), "has_qp", has_qp,
                   "differs from this connection's")) {
      return;
    }
    if (has_qp) VisitShape(f, *qp);
    f("phase", phase, Endpoint::Phase::kClosed, kPhases);
    f("failure", failure, iwarp::Failure::kAborted, kFailures);
    f.Hex("events", events);
    f("connected", connected);
    f("request_reported", request_reported);
    f("end_reported", end_reported);
    f("empty_fpdu_due", empty_fpdu_due);
    f("drained", drained);
    f("in_message", in_message);
    f("small_messages", small_messages);
    f.Deadline("retry_at", retry_at);
    f.Deadline("hold_until", hold_until);
    f("answered", answered);
    f("timeouts", timeouts);
    f("cut", cut);
    f("peer_start", peer_start);
    f.Group("qp_config", qp_config);
    // The engine's, derived, or valid only during a call.
    f.Elsewhere(pools, verdict, position, close_due, abort_due, starved, now,
                tcp_first, send_start);
    if (has_qp) f.Element("qp", *qp);
    f.Group("tcp", tcp_connection);
    f.Group("set_up", set_up);
    f.Group("early", early);
    f.Group("kept", kept);
    f.Elsewhere(delimiter);
    if (!f.ok()) return;
    FieldsOf<iwarp::KeptFpdus>::VisitAll(f, kept,
                                         tcp_connection.config_.offer.mss);
    // Later phases have none: Settle() has seen to that.
    if (phase != Endpoint::Phase::kRunning) return;
    if constexpr (F::kReads) {
      if (!RequireAgreement(f, s)) return;
      delimiter.emplace(s.PeerFraming(), pools.pieces, pools.frames);
    }
    f.Element("delimiter", *delimiter);
  }
  // Checks the rules between the members. `answers`: see Destination.
  static void Check(ImageReader& f, const Endpoint& e, uint32_t answers);
  // Sets the members that follow from the others.
  static void Derive(Endpoint& e, Time now);

  static bool IsNew(const Endpoint& e) {
    return e.phase_ == Endpoint::Phase::kIdle;
  }
  static void Use(Endpoint& e, rdmap::Qp* qp) { e.qp_ = qp; }
  static const tcp::ConnectionConfig& ConfigOf(const Endpoint& e) {
    return e.tcp_.config_;
  }

 private:
  template <typename F, typename S>
  static void VisitShape(F& f, S& qp) {
    if constexpr (F::kReads) {
      ReadSizes(f, FieldsOf<rdmap::Qp>::ShapeOf(qp));
    } else {
      const ImageShape shape = FieldsOf<rdmap::Qp>::ShapeOf(qp);
      f.Element("shape", shape);
    }
  }
  // Whether both ends have agreed how FPDUs are divided.
  static bool RequireAgreement(ImageReader& f, const Endpoint& e);
  static void CheckPhase(ImageReader& f, const Endpoint& e);
  static void CheckSetUp(ImageReader& f, const Endpoint& e, uint32_t answers);
  // Checks that the early parts of the stream consist of FPDUs whose headers
  // the image has.
  static void CheckEarly(ImageReader& f, const Endpoint& e);
  // Checks that the unacknowledged chunks can be built again, with the same
  // lengths.
  static void CheckChunks(ImageReader& f, const Endpoint& e);
  static void CheckFrameChunk(ImageReader& f, const Endpoint& e, SeqNum begin,
                              uint64_t source, uint32_t bytes);
  // 0: it cannot be built. UINT32_MAX: it is impossible.
  static uint32_t FpduBytes(const Endpoint& e, SeqNum begin, uint64_t source);
  // The same for a chunk that must be kept: up to the FPDU that reaches the end
  // of the copy.
  static uint32_t KeptBytes(const Endpoint& e, const iwarp::KeptFpdu& copy);
};

}  // namespace urnic
