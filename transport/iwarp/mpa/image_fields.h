#pragma once

// The lists of members of MPA (transport/work/image_codec.h).
//
// Members that follow from the peer's bytes are not carried. The bytes are
// carried instead, and read again: the frame that sets a connection up, and the
// parts of an FPDU whose end has not arrived. These parts have been
// acknowledged, so they must not be dropped.

#include <utility>

#include "transport/iwarp/mpa/delimiter.h"
#include "transport/iwarp/mpa/depths.h"
#include "transport/iwarp/mpa/negotiation.h"
#include "transport/work/image_codec.h"

namespace urnic {

namespace mpa {
// By the values of MpaError.
inline constexpr const char* kErrorNames[] = {
    "none",      "connection_lost",    "bad_crc",          "bad_marker",
    "bad_frame", "local_catastrophic", "insufficient_ird", "no_matching_rtr"};
}  // namespace mpa

template <>
struct FieldsOf<mpa::SetupOptions> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, revision, crc, markers, ird, ord, max_ird, peer_to_peer,
                  rtr_kinds, promise, timeout);
    f("revision", revision);
    f("crc", crc);
    f("markers", markers);
    f("ird", ird);
    f("ord", ord);
    f("max_ird", max_ird);
    f("peer_to_peer", peer_to_peer);
    f.Hex("rtr_kinds", rtr_kinds);
    f("promise", promise);
    f("timeout", timeout);
    f.Require(revision == 1 || revision == 2, "revision", revision,
              "is not supported");
    f.Require(ird < mpa::kNotNegotiated, "ird", ird, "is more than 14 bits");
    f.Require(ord < mpa::kNotNegotiated, "ord", ord, "is more than 14 bits");
    f.Require(max_ird < mpa::kNotNegotiated, "max_ird", max_ird,
              "is more than 14 bits");
    f.Require(rtr_kinds <= mpa::kRtrAll, "rtr_kinds", rtr_kinds, "is unknown");
  }
};

template <>
struct FieldsOf<mpa::SetupReader> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, expected, with_promise, state, have, need, frame,
                  bytes);
    uint32_t count = have;
    f("have", count);
    f.Elsewhere(expected, with_promise, state, need, frame, bytes);
    if (!f.Require(count <= bytes.size(), "have", count,
                   "is more than a frame has")) {
      return;
    }
    const auto payload = f.Payload("frame", bytes.data(), count);
    if constexpr (F::kReads) {
      f.Require(s.Add(payload) == count, "have", count,
                "is more than this frame has");
    }
  }
};

template <>
struct FieldsOf<mpa::Initiator> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, options, state, error, deadline, agreement, reader);
    using State = mpa::Initiator::State;
    static constexpr const char* kStates[] = {
        "idle",     "waiting",         "agreed", "terminate",
        "rejected", "retry_revision1", "failed"};
    f.Elsewhere(options);    // given when it is made
    f.Elsewhere(agreement);  // follows from the reply
    f("state", state, State::kFailed, kStates);
    f("error", error, mpa::MpaError::kNoMatchingRtr, mpa::kErrorNames);
    f.Deadline("deadline", deadline);
    f.Group("reply", reader);
    if constexpr (F::kReads) {
      if (f.ok()) Derive(f, s);
    }
  }

 private:
  static void Derive(ImageReader& f, mpa::Initiator& s) {
    using State = mpa::Initiator::State;
    const auto number = static_cast<uint64_t>(s.state_);
    f.Require(s.state_ != State::kIdle, "state", number, "has not begun");
    f.Require(s.deadline_.IsInfinite() == (s.state_ != State::kWaiting),
              "deadline", s.deadline_.IsInfinite(), "does not fit the state");
    if (s.reader_.state() != mpa::SetupReader::State::kComplete) {
      f.Require(s.state_ == State::kWaiting ||
                    s.state_ == State::kRetryRevision1 ||
                    s.state_ == State::kFailed,
                "state", number, "needs a reply");
      return;
    }
    const auto [state, error] = std::pair(s.state_, s.error_);
    (void)s.OnReply(s.reader_.frame());
    f.Require(s.state_ == state && s.error_ == error, "state", number,
              "does not follow from the reply");
  }
};

template <>
struct FieldsOf<mpa::Responder> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, options, state, error, deadline, agreement, reader);
    using State = mpa::Responder::State;
    static constexpr const char* kStates[] = {
        "waiting", "requested", "accepted", "running", "rejected", "failed"};
    f.Elsewhere(options);    // given when it is made
    f.Elsewhere(agreement);  // follows from the request
    f("state", state, State::kFailed, kStates);
    f("error", error, mpa::MpaError::kNoMatchingRtr, mpa::kErrorNames);
    f.Deadline("deadline", deadline);
    f.Group("request", reader);
    if constexpr (F::kReads) {
      if (f.ok()) Derive(f, s);
    }
  }

 private:
  static void Derive(ImageReader& f, mpa::Responder& s) {
    using State = mpa::Responder::State;
    const State state = s.state_;
    const auto number = static_cast<uint64_t>(state);
    f.Require(state != State::kWaiting || !s.deadline_.IsInfinite(), "deadline",
              UINT64_MAX, "is never");
    const bool complete =
        s.reader_.state() == mpa::SetupReader::State::kComplete;
    const bool asked = complete && s.request().revision != 0 &&
                       s.request().revision <= s.options_.revision;
    f.Require(state == State::kFailed || asked == (state != State::kWaiting),
              "state", number, "does not follow from the request");
    if (!f.ok() || (state != State::kAccepted && state != State::kRunning)) {
      return;
    }
    s.state_ = State::kRequested;
    s.agreement_ = s.Proposed();
    s.state_ = state;
  }
};

// The connection has the configuration. The bytes of an incomplete FPDU are
// processed again, which gives its length, its CRC and its shape.
template <>
struct FieldsOf<mpa::Delimiter> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, held, keeper, holder, config, error, shape, arrived,
                  total, crc, start, crc_field, marker, parts, executed, ulpdu);
    // After an error nothing is taken any more.
    uint32_t phase = shape.phase;
    uint32_t ended_at = error == mpa::MpaError::kNone ? 0 : arrived;
    f("error", error, mpa::MpaError::kNoMatchingRtr, mpa::kErrorNames);
    f("phase", phase);
    f("ended_at", ended_at);
    f.Elsewhere(held, keeper, holder, config, total, crc, start, crc_field,
                marker, executed, ulpdu);
    f.Require(
        error == mpa::MpaError::kNone || error == mpa::MpaError::kBadCrc ||
            error == mpa::MpaError::kBadMarker,
        "error", static_cast<uint64_t>(error), "is not an error of an FPDU");
    f.Require(phase < wire::kMarkerSpacing, "phase", phase,
              "is more than the distance of two markers");
    if constexpr (F::kReads) shape.phase = phase;
    VisitParts(f, s, parts);
    if constexpr (F::kReads) {
      if (error != mpa::MpaError::kNone) arrived = ended_at;
    }
  }

 private:
  // None of the parts ends the FPDU.
  struct NoUlpdu {
    bool complete = false;
    bool OnUlpdu(const mpa::Ulpdu&) {
      complete = true;
      return false;
    }
  };

  template <typename F, typename S, typename List>
  static void VisitParts(F& f, S& s, List& parts) {
    constexpr uint32_t kNone = mpa::HeldPieces::kNone;
    uint32_t count = 0;
    if constexpr (!F::kReads) {
      for (uint32_t i = parts.first; i != kNone; i = s.held_->nodes_[i].next) {
        ++count;
      }
    }
    f("parts", count);
    uint32_t at = parts.first;
    for (uint32_t i = 0; f.ok() && i != count; ++i) {
      if constexpr (F::kReads) {
        ReadPart(f, s);
      } else {
        const auto& node = s.held_->nodes_[at];
        uint32_t bytes = static_cast<uint32_t>(node.bytes.size());
        f.Extra("bytes", bytes);
        (void)f.Payload("part", node.bytes.data(), bytes);
        at = node.next;
      }
    }
  }
  static void ReadPart(ImageReader& f, mpa::Delimiter& s) {
    uint32_t bytes = 0;
    f.Extra("bytes", bytes);
    const auto part = f.Payload("part", nullptr, bytes);
    if (!f.Require(bytes != 0, "bytes", 0, "must not be 0") || !f.ok()) return;
    const ReceivedFrame frame = f.MakeFrame(part);
    if (!f.Require(frame.buffer != nullptr, "bytes", bytes,
                   "find no frame here")) {
      return;
    }
    NoUlpdu upper;
    const auto taken = s.OnBytes(frame.bytes, frame, upper);
    f.Require(taken.verdict != RxVerdict::kMpaNoRoom, "bytes", bytes,
              "find no custody here");
    f.Require(taken.verdict == RxVerdict::kAccept && taken.bytes == bytes &&
                  !upper.complete,
              "bytes", bytes, "are not the middle of an FPDU");
  }
};

}  // namespace urnic
