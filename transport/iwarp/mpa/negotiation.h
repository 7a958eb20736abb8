#pragma once

// The set-up of MPA on an established TCP connection, for both roles. Sans-IO:
// bytes and the time go in; frames to send and a state come out.
//
// The initiator sends a request, the responder answers with a reply, and the
// initiator sends the first FPDU. What is agreed:
//
// - CRCs are used if either side wants them.
// - Markers: each side states whether it wants to receive them.
// - IRD and ORD (revision 2): each side's ORD is at most the other side's IRD.
// - The peer-to-peer model (revision 2): the initiator's first FPDU is a
//   message without effect (RTR), so that the responder may send first. Both
//   sides agree on the kind of this message.
//
// Revision 1 has no IRD, ORD and RTR. If the peer does not know revision 2, the
// initiator begins again with revision 1: on the same connection if the reply
// says so, otherwise on a new one (kRetryRevision1).

#include <cstdint>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/fields.h"
#include "transport/base/time.h"
#include "transport/iwarp/mpa/errors.h"
#include "transport/iwarp/mpa/setup_frame.h"

namespace urnic::mpa {

// Kinds of RTR messages, as bits: a set of them.
using RtrKinds = uint8_t;
inline constexpr RtrKinds kRtrNone = 0;
inline constexpr RtrKinds kRtrZeroFpdu = 1;
inline constexpr RtrKinds kRtrWrite = 2;  // of no bytes
inline constexpr RtrKinds kRtrRead = 4;   // of no bytes
inline constexpr RtrKinds kRtrAll = kRtrZeroFpdu | kRtrWrite | kRtrRead;

// What this side wants and can do.
struct SetupOptions {
  // The latest revision to use, 1 or 2.
  uint8_t revision = 2;
  bool crc = true;
  bool markers = false;  // whether we want to receive them
  // Incoming and outgoing reads at a time, below 0x3fff. `max_ird`: the limit
  // to which IRD may be raised if the peer wants more.
  uint16_t ird = 0;
  uint16_t ord = 0;
  uint16_t max_ird = 0;
  // The initiator: whether to ask for the peer-to-peer model. Both: the kinds
  // of RTR that this side can send or receive.
  bool peer_to_peer = false;
  RtrKinds rtr_kinds = kRtrAll;
  // Whether to make the promise of aligned segments, and to look for the
  // peer's. Set if the peer's SYN shows that it is a uRNIC.
  bool promise = false;
  // For the whole set-up. The time that the program takes to accept a request
  // does not count.
  Duration timeout = Duration::Seconds(30);
};

// The result.
struct Agreement {
  uint8_t revision = 2;
  bool crc = true;
  bool send_markers = false;
  bool receive_markers = false;
  // IRD and ORD as agreed; without agreement (revision 1), those of the
  // options.
  bool depths_agreed = false;
  uint16_t ird = 0;
  uint16_t ord = 0;
  // The peer-to-peer model: exactly one kind. The initiator sends it as its
  // first FPDU.
  RtrKinds rtr = kRtrNone;
  // The peer has made the promise of aligned segments.
  bool peer_aligned = false;
};

class Initiator {
 public:
  enum class State : uint8_t {
    kIdle,
    kWaiting,  // for the reply
    kAgreed,
    // Agreed, but the reply does not fit: the first FPDU is a Terminate message
    // with error(), and then TCP is closed.
    kTerminate,
    kRejected,  // by the peer's program, perhaps with private data; close TCP
    // The peer does not know revision 2. Connect again, with revision 1.
    kRetryRevision1,
    kFailed,  // close TCP
  };

  explicit Initiator(const SetupOptions& options);

  // Writes the request, to be sent when TCP is connected. `to` has room for
  // kMaxSetupBytes. Returns its length.
  // REQUIRES: the private data are not longer than MaxPrivateData().
  uint32_t Start(std::span<const uint8_t> private_data, Time now,
                 std::span<uint8_t> to);

  // The peer is not a uRNIC: removes the promise from the request, which has
  // not been sent, and returns its length.
  uint32_t WithdrawPromise(std::span<uint8_t> request);

  struct Taken {
    uint32_t bytes = 0;  // the rest belongs to FPDUs
    RxVerdict verdict = RxVerdict::kAccept;
  };
  Taken OnBytes(std::span<const uint8_t> bytes);
  // TCP has ended while we waited.
  void OnClosed();
  void OnTimer(Time now);
  Time NextDeadline() const { return deadline_; }

  State state() const { return state_; }
  bool promises() const { return options_.promise; }
  const SetupOptions& options() const { return options_; }
  // With kTerminate and kFailed. kNone: there was no answer in time.
  MpaError error() const { return error_; }
  // REQUIRES: kAgreed or kTerminate.
  const Agreement& agreement() const { return agreement_; }
  // REQUIRES: kAgreed, kTerminate or kRejected. In this object.
  std::span<const uint8_t> private_data() const {
    return reader_.frame().private_data;
  }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  RxVerdict OnReply(const SetupFrame& reply);
  void Agree(const wire::MpaEnhanced& theirs);
  void End(State state, MpaError error);

  SetupOptions options_;
  State state_ = State::kIdle;
  MpaError error_ = MpaError::kNone;
  Time deadline_ = Time::Infinite();
  Agreement agreement_;
  SetupReader reader_;
};

class Responder {
 public:
  enum class State : uint8_t {
    kWaiting,    // for the request
    kRequested,  // Accept() or Reject() is next
    // The reply has been sent. The responder sends nothing before the first
    // FPDU of the initiator (OnFirstFpdu()).
    kAccepted,
    kRunning,
    kRejected,  // by us: send the reply, close TCP
    kFailed,    // close TCP
  };

  // When TCP is connected.
  Responder(const SetupOptions& options, Time now);

  struct Taken {
    uint32_t bytes = 0;
    RxVerdict verdict = RxVerdict::kAccept;
  };
  // Bytes that come before the reply has been sent. Afterwards, they belong to
  // FPDUs.
  Taken OnBytes(std::span<const uint8_t> bytes);
  // The first FPDU has arrived, of any kind.
  void OnFirstFpdu();
  void OnClosed();
  void OnTimer(Time now);
  Time NextDeadline() const { return deadline_; }

  // What the peer asks for, for the program. REQUIRES: kRequested.
  const SetupFrame& request() const { return reader_.frame(); }
  // The program's choice of depths, which may depend on the request; until then
  // those of the options. REQUIRES: kRequested.
  void SetDepths(uint16_t ird, uint16_t ord);
  // What Accept() would agree on. REQUIRES: kRequested.
  Agreement Proposed() const;

  // Both write the reply and return its length. `to` has room for
  // kMaxSetupBytes. REQUIRES: kRequested; the private data are not longer than
  // room().
  uint32_t Accept(std::span<const uint8_t> private_data, Time now,
                  std::span<uint8_t> to);
  uint32_t Reject(std::span<const uint8_t> private_data, std::span<uint8_t> to);
  // The room for the program's private data in the reply. REQUIRES: kRequested.
  uint32_t room() const {
    return options_.promise
               ? MaxPrivateData(request().revision, request().promise)
               : MaxReplyToOthers(request().revision);
  }
  // The limit of the options.
  uint16_t max_ird() const { return options_.max_ird; }

  State state() const { return state_; }
  MpaError error() const { return error_; }
  // REQUIRES: kAccepted or kRunning.
  const Agreement& agreement() const { return agreement_; }

 private:
  template <typename T>
  friend struct urnic::FieldsOf;

  void End(State state, MpaError error);
  SetupFrame ReplyOf(const Agreement& agreement) const;

  SetupOptions options_;
  State state_ = State::kWaiting;
  MpaError error_ = MpaError::kNone;
  Time deadline_;
  Agreement agreement_;
  SetupReader reader_;
};

}  // namespace urnic::mpa
