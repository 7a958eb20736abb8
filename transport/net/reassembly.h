#pragma once

//= RFC 1122 3.3.2, RFC 8200 4.5: a host reassembles packets from fragments
//
// The fragments stay in the frames that they came in (FrameKeeper).
//
// Rules:
// - A packet whose fragments overlap or contradict each other is dropped, with
//   those that come later. This holds for IPv4 too, where overlaps were used
//   for attacks. A duplicate fragment is ignored.
// - An atomic fragment, which is a whole packet, is not combined with others.
// - A packet that is not complete 60 s after its first fragment is dropped. We
//   send no "time exceeded".
//
// Bounds: packets and frames, per source and in total. When room is needed, the
// oldest packet is dropped: of the same source, if that has reached its limit.
// If that makes no room, the packet that needs it is dropped. A flood of
// fragments that never make a packet costs fixed memory, and a source that
// floods under its own address disturbs only itself.
//
// Nothing is allocated after construction.

#include <cstdint>
#include <span>
#include <vector>

#include "ras/metrics/rx_verdict.h"
#include "transport/base/frame_keeper.h"
#include "transport/base/time.h"
#include "transport/wire/echo.h"
#include "transport/wire/fragment.h"

namespace urnic::net {

class Reassembly {
 public:
  // Later fragments do not extend it.
  static constexpr Duration kLifetime = Duration::Seconds(60);
  // Few: a linear search is enough, and there is no hash to attack.
  static constexpr uint32_t kMaxPackets = 64;
  static constexpr uint32_t kMaxPacketsPerSource = 8;
  static constexpr uint32_t kMaxFrames = 256;
  // Room for 64 KB in packets of 576 bytes.
  static constexpr uint32_t kMaxFramesPerSource = 128;

  // `keeper` outlives all use of this object; null: nothing is kept.
  explicit Reassembly(FrameKeeper* keeper);
  Reassembly(const Reassembly&) = delete;
  Reassembly& operator=(const Reassembly&) = delete;

  // Takes a fragment that ParseFragment() has accepted from this frame.
  // kAccept: its packet is complete. message() is what follows the packet's IP
  // header, until Finish(), which must be called before anything else.
  // Otherwise kFragmentKept, kFragmentTwice, kFragmentNoRoom or kBadFragment.
  RxVerdict OnFragment(const wire::Fragment& fragment,
                       const ReceivedFrame& frame, Time now);
  wire::MessagePieces message() const { return message_; }
  //= RFC 3168 5.3: a packet is marked if one of its fragments was
  // Of message().
  bool marked() const { return marked_; }
  void Finish();

  void OnTimer(Time now);
  Time NextDeadline() const { return deadline_; }

  uint32_t frames_kept() const { return holder_.kept; }
  // The number of packets dropped incomplete since the last call.
  uint64_t TakeIncomplete();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // A fragment, or a free place for one.
  struct Piece {
    uint32_t begin = 0;
    std::span<const uint8_t> data;
    uint32_t frame = 0;     // its number in custody
    uint32_t next = kNone;  // in its packet, by offset, or in the free list
    uint32_t end() const { return begin + static_cast<uint32_t>(data.size()); }
  };
  struct Packet {
    bool used = false;
    // Its fragments were in conflict: later ones are dropped.
    bool dropped = false;
    bool marked = false;
    wire::Gid src;
    wire::Gid dst;
    uint8_t protocol = 0;
    uint32_t identification = 0;
    Time expires;
    uint32_t first = kNone;  // of its pieces
    uint32_t frames = 0;
    uint32_t bytes = 0;  // received so far
    uint32_t total = 0;  // 0: the last fragment has not arrived
  };

  Packet* Find(const wire::Fragment& fragment);
  Packet& Make(const wire::Fragment& fragment, Time now);
  // Finds the fragment's place: after `before`. Returns kAccept, kFragmentTwice
  // or kBadFragment.
  RxVerdict FindPlace(const Packet& packet, const wire::Fragment& fragment,
                      uint32_t& before) const;
  bool Contradicts(const Packet& packet, const wire::Fragment& fragment) const;
  // False: there is no room, even after others were dropped.
  bool KeepFrame(const Packet& packet, const ReceivedFrame& frame,
                 uint32_t& number);
  void Complete(Packet& packet, const wire::Fragment& last, uint32_t before);
  // Drops the oldest packet for which `candidate(packet)` is true. False: there
  // is none.
  template <typename F>
  bool DropOldest(F&& candidate);
  void ReleaseFrames(Packet& packet);
  // Drops the packet and counts it as incomplete.
  void GiveUp(Packet& packet);
  void Forget(Packet& packet);
  void SetDeadline();

  FrameKeeper* const keeper_;
  FrameHolder holder_{.limit = kMaxFrames};
  std::vector<Packet> packets_;
  std::vector<Piece> pieces_;
  uint32_t free_piece_ = kNone;
  std::vector<std::span<const uint8_t>> message_;
  bool marked_ = false;
  Packet* whole_ = nullptr;  // the packet of message_
  Time deadline_ = Time::Infinite();
  uint64_t incomplete_ = 0;
};

}  // namespace urnic::net
