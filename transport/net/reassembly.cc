#include "transport/net/reassembly.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/mutation.h"

namespace urnic::net {

Reassembly::Reassembly(FrameKeeper* keeper)
    : keeper_(keeper), packets_(kMaxPackets), pieces_(kMaxFrames) {
  for (uint32_t i = 0; i < kMaxFrames; ++i) {
    pieces_[i].next = std::exchange(free_piece_, i);
  }
  message_.reserve(kMaxFrames + 1);
}

RxVerdict Reassembly::OnFragment(const wire::Fragment& fragment,
                                 const ReceivedFrame& frame, Time now) {
  URNIC_CHECK(message_.empty());
  //= RFC 6946 4: an atomic fragment is processed in isolation from all others
  if (fragment.offset == 0 && fragment.last) {
    message_.push_back(fragment.data);
    marked_ = fragment.marked;
    return RxVerdict::kAccept;
  }
  if (keeper_ == nullptr) return RxVerdict::kFragmentNoRoom;
  Packet* found = Find(fragment);
  Packet& packet = found != nullptr ? *found : Make(fragment, now);
  if (packet.dropped) return RxVerdict::kBadFragment;
  uint32_t before = kNone;
  const RxVerdict place = FindPlace(packet, fragment, before);
  if (place == RxVerdict::kBadFragment) {
    //= RFC 5722 4: a packet with overlapping fragments is dropped, and so are
    //= its fragments that still arrive
    packet.dropped = true;
    ReleaseFrames(packet);
    return place;
  }
  if (place != RxVerdict::kAccept) return place;
  if (fragment.last) packet.total = fragment.end();
  packet.marked |= fragment.marked;
  packet.bytes += static_cast<uint32_t>(fragment.data.size());
  if (packet.bytes == packet.total) {
    Complete(packet, fragment, before);
    return RxVerdict::kAccept;
  }
  uint32_t number = 0;
  if (!KeepFrame(packet, frame, number)) {
    GiveUp(packet);
    return RxVerdict::kFragmentNoRoom;
  }
  const uint32_t at = free_piece_;
  Piece& piece = pieces_[at];
  free_piece_ = piece.next;
  uint32_t& link = before == kNone ? packet.first : pieces_[before].next;
  piece = {fragment.offset, fragment.data, number, link};
  link = at;
  ++packet.frames;
  return RxVerdict::kFragmentKept;
}

Reassembly::Packet* Reassembly::Find(const wire::Fragment& fragment) {
  for (Packet& packet : packets_) {
    if (packet.identification == fragment.identification && packet.used &&
        packet.src == fragment.src && packet.dst == fragment.dst &&
        packet.protocol == fragment.protocol) {
      return &packet;
    }
  }
  return nullptr;
}

Reassembly::Packet& Reassembly::Make(const wire::Fragment& fragment, Time now) {
  const auto of_source = [&](const Packet& p) { return p.src == fragment.src; };
  if (std::ranges::count_if(packets_, [&](const Packet& p) {
        return p.used && of_source(p);
      }) >= kMaxPacketsPerSource) {
    DropOldest(of_source);
  }
  auto at = std::ranges::find_if(packets_, [](auto& p) { return !p.used; });
  if (at == packets_.end()) {
    DropOldest([](const Packet&) { return true; });
    at = std::ranges::find_if(packets_, [](auto& p) { return !p.used; });
  }
  *at = Packet{.used = true,
               .src = fragment.src,
               .dst = fragment.dst,
               .protocol = fragment.protocol,
               .identification = fragment.identification,
               .expires = now + kLifetime};
  SetDeadline();
  return *at;
}

bool Reassembly::Contradicts(const Packet& packet,
                             const wire::Fragment& fragment) const {
  if (!fragment.last) {
    return packet.total != 0 && fragment.end() >= packet.total;
  }
  if (packet.total != 0) return fragment.end() != packet.total;
  for (uint32_t i = packet.first; i != kNone; i = pieces_[i].next) {
    if (pieces_[i].end() >= fragment.end()) return true;
  }
  return false;
}

RxVerdict Reassembly::FindPlace(const Packet& packet,
                                const wire::Fragment& fragment,
                                uint32_t& before) const {
  if (Contradicts(packet, fragment)) return RxVerdict::kBadFragment;
  uint32_t next = packet.first;
  while (next != kNone && pieces_[next].begin < fragment.offset) {
    before = next;
    next = pieces_[next].next;
  }
  //= RFC 8200 4.5: an exact duplicate of a fragment may be ignored, although it
  //= overlaps
  if (next != kNone && pieces_[next].begin == fragment.offset &&
      std::ranges::equal(pieces_[next].data, fragment.data)) {
    return RxVerdict::kFragmentTwice;
  }
  if ((before != kNone && pieces_[before].end() > fragment.offset) ||
      (next != kNone && pieces_[next].begin < fragment.end())) {
    return RxVerdict::kBadFragment;
  }
  return RxVerdict::kAccept;
}

bool Reassembly::KeepFrame(const Packet& packet, const ReceivedFrame& frame,
                           uint32_t& number) {
  const auto has_frames = [&](const Packet& p) {
    return &p != &packet && p.frames != 0;
  };
  uint32_t of_source = 0;
  for (const Packet& p : packets_) {
    if (p.used && p.src == packet.src) of_source += p.frames;
  }
  if (of_source >= kMaxFramesPerSource && !DropOldest([&](const Packet& p) {
        return has_frames(p) && p.src == packet.src;
      })) {
    return false;
  }
  while (true) {
    if (holder_.kept < holder_.limit) {
      number = keeper_->Keep(frame, holder_);
      if (number != FrameKeeper::kRefused) return true;
    }
    if (!DropOldest(has_frames)) return false;
  }
}

void Reassembly::Complete(Packet& packet, const wire::Fragment& last,
                          uint32_t before) {
  if (before == kNone) message_.push_back(last.data);
  for (uint32_t i = packet.first; i != kNone; i = pieces_[i].next) {
    message_.push_back(pieces_[i].data);
    MUTATION_SKIPS(net_forgets_the_last_fragment)
    if (i == before) message_.push_back(last.data);
  }
  whole_ = &packet;
  marked_ = packet.marked;
}

void Reassembly::Finish() {
  message_.clear();
  if (whole_ == nullptr) return;
  MUTATION_SKIPS(net_keeps_fragments)
  ReleaseFrames(*whole_);
  Forget(*whole_);
  whole_ = nullptr;
}

template <typename F>
bool Reassembly::DropOldest(F&& candidate) {
  Packet* oldest = nullptr;
  for (Packet& packet : packets_) {
    if (packet.used && candidate(packet) &&
        (oldest == nullptr || packet.expires < oldest->expires)) {
      oldest = &packet;
    }
  }
  if (oldest == nullptr) return false;
  GiveUp(*oldest);
  return true;
}

void Reassembly::ReleaseFrames(Packet& packet) {
  for (uint32_t i = packet.first; i != kNone;) {
    Piece& piece = pieces_[i];
    keeper_->Release(piece.frame, holder_);
    const uint32_t next = std::exchange(piece.next, free_piece_);
    free_piece_ = std::exchange(i, next);
  }
  packet.first = kNone;
  packet.frames = 0;
}

void Reassembly::GiveUp(Packet& packet) {
  ++incomplete_;
  ReleaseFrames(packet);
  Forget(packet);
}

void Reassembly::Forget(Packet& packet) {
  packet.used = false;
  SetDeadline();
}

void Reassembly::OnTimer(Time now) {
  if (now < deadline_) return;
  for (Packet& packet : packets_) {
    if (packet.used && packet.expires <= now) GiveUp(packet);
  }
}

void Reassembly::SetDeadline() {
  deadline_ = Time::Infinite();
  for (const Packet& packet : packets_) {
    if (packet.used) deadline_ = std::min(deadline_, packet.expires);
  }
}

uint64_t Reassembly::TakeIncomplete() { return std::exchange(incomplete_, 0); }

}  // namespace urnic::net
