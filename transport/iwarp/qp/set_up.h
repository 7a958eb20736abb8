#pragma once

// The set-up of MPA in either role, and our own frame. TCP may have to resend
// the frame's bytes at any time, so they are kept here.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/check.h"
#include "transport/base/fields.h"
#include "transport/base/time.h"
#include "transport/iwarp/mpa/negotiation.h"

namespace urnic::iwarp {

class SetUp {
  mpa::Responder& AsResponder() {
    auto* responder = std::get_if<mpa::Responder>(&role_);
    URNIC_CHECK(responder != nullptr);
    return *responder;
  }
  template <typename F>
  auto Visit(F&& f) {
    auto* initiator = std::get_if<mpa::Initiator>(&role_);
    return initiator != nullptr ? f(*initiator) : f(AsResponder());
  }

 public:
  // One of the two comes first. The private data fit (mpa::MaxPrivateData()).
  void Initiate(const mpa::SetupOptions& options,
                std::span<const uint8_t> private_data, Time now) {
    frame_bytes_ =
        role_.emplace<mpa::Initiator>(options).Start(private_data, now, frame_);
  }
  void Respond(const mpa::SetupOptions& options, Time now) {
    role_.emplace<mpa::Responder>(options, now);
  }

  // The peer is not a uRNIC. Call this before the first Cut(); only an
  // initiator needs it, because a responder knows from the beginning.
  void WithdrawPromise() {
    auto* initiator = std::get_if<mpa::Initiator>(&role_);
    if (initiator == nullptr || !initiator->promises()) return;
    URNIC_CHECK(cut_bytes_ == 0);
    frame_bytes_ =
        initiator->WithdrawPromise(std::span(frame_).first(frame_bytes_));
  }

  bool initiates() const {
    return std::holds_alternative<mpa::Initiator>(role_);
  }
  const mpa::Initiator& initiator() const {
    return *std::get_if<mpa::Initiator>(&role_);
  }
  const mpa::Responder& responder() const {
    return *std::get_if<mpa::Responder>(&role_);
  }
  bool has_request() const {
    return !initiates() &&
           responder().state() == mpa::Responder::State::kRequested;
  }

  // REQUIRES: has_request(); the private data fit (Responder::room()).
  void Accept(uint16_t ird, uint16_t ord, std::span<const uint8_t> private_data,
              Time now) {
    AsResponder().SetDepths(ird, ord);
    frame_bytes_ = AsResponder().Accept(private_data, now, frame_);
  }
  void Reject(std::span<const uint8_t> private_data) {
    frame_bytes_ = AsResponder().Reject(private_data, frame_);
  }

  // Returns how many of the bytes belong to the peer's frame.
  uint32_t OnBytes(std::span<const uint8_t> bytes, RxVerdict& verdict) {
    return Visit([&](auto& role) {
      const auto taken = role.OnBytes(bytes);
      verdict = taken.verdict;
      return taken.bytes;
    });
  }
  void OnClosed() {
    Visit([](auto& role) { role.OnClosed(); });
  }
  void OnTimer(Time now) {
    Visit([now](auto& role) { role.OnTimer(now); });
  }
  Time NextDeadline() const {
    if (const auto* initiator = std::get_if<mpa::Initiator>(&role_)) {
      return initiator->NextDeadline();
    }
    const auto* responder = std::get_if<mpa::Responder>(&role_);
    return responder == nullptr ? Time::Infinite() : responder->NextDeadline();
  }
  void OnFirstFpdu() { AsResponder().OnFirstFpdu(); }

  // agreement() is that of both sides.
  bool agreed() const {
    using mpa::Responder;
    if (const auto* initiator = std::get_if<mpa::Initiator>(&role_))
      return initiator->state() == mpa::Initiator::State::kAgreed;
    const auto* responder = std::get_if<mpa::Responder>(&role_);
    return responder != nullptr &&
           (responder->state() == Responder::State::kAccepted ||
            responder->state() == Responder::State::kRunning);
  }
  const mpa::Agreement& agreement() const {
    return initiates() ? initiator().agreement() : responder().agreement();
  }
  // Whether FPDUs may be sent, once there is an agreement.
  //= RFC 5044 7.1.2: the responder may send once the first FPDU of the
  //= initiator has arrived
  bool may_send() const {
    return initiates() ||
           responder().state() == mpa::Responder::State::kRunning;
  }

  // Our frame.
  uint32_t frame_bytes() const { return frame_bytes_; }
  uint32_t unsent_bytes() const { return frame_bytes_ - cut_bytes_; }
  // Takes up to `max_bytes` of the next bytes to send: sets `offset` to their
  // beginning, and returns their number.
  uint32_t Cut(uint32_t max_bytes, uint32_t& offset) {
    offset = cut_bytes_;
    const uint32_t bytes = std::min(max_bytes, unsent_bytes());
    cut_bytes_ += bytes;
    return bytes;
  }
  void CopyFrame(uint32_t offset, std::span<uint8_t> out) const {
    URNIC_CHECK(offset + out.size() <= frame_bytes_);
    std::copy_n(frame_.begin() + offset, out.size(), out.begin());
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  std::variant<std::monostate, mpa::Initiator, mpa::Responder> role_;
  std::array<uint8_t, mpa::kMaxSetupBytes> frame_;
  uint32_t frame_bytes_ = 0;
  uint32_t cut_bytes_ = 0;
};

}  // namespace urnic::iwarp
