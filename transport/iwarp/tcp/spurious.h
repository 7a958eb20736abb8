#pragma once

// Detects that a retransmission was not necessary: by time stamps, by D-SACKs,
// and, after a time-out, by F-RTO. The sender then undoes its reduction.

#include <cstdint>

#include "transport/base/seq_num.h"

namespace urnic::tcp {

// A loss episode: from the decision that a segment is lost to the end of the
// round trip after its repair.
struct Episode {
  void Start(SeqNum una) {
    *this = Episode();
    open = true;
    begin = una;
  }

  void OnResend(SeqNum end, uint32_t timestamp) {
    if (!open) return;
    ++unexplained;
    if (resent) return;
    resent = true;
    first_end = end;
    first_timestamp = timestamp;
  }

  //= RFC 3522 3.2: if the acknowledgement of a resent segment echoes a time
  //= before the retransmission, the original arrived
  // Called for acknowledgements that move SND.UNA.
  bool EchoesOriginal(SeqNum ack, bool has_echo, uint32_t echo) {
    if (!open || !resent || echo_judged || ack - first_end < 0) return false;
    echo_judged = true;
    return has_echo && static_cast<int32_t>(echo - first_timestamp) < 0;
  }

  //= RFC 3708 2: if D-SACKs report every retransmission as a duplicate, none
  //= was necessary
  bool OnDsack(SeqNum dsack_begin) {
    if (!open || unexplained == 0 || dsack_begin - begin < 0) return false;
    return --unexplained == 0;
  }

  // A D-SACK takes a round trip; later ones belong to no episode.
  void OnRepaired(SeqNum nxt) {
    repaired = true;
    until = nxt;
  }
  void OnAck(SeqNum una) {
    if (open && repaired && una - until > 0) open = false;
  }

  SeqNum begin;
  SeqNum until;
  SeqNum first_end;
  uint32_t first_timestamp = 0;
  uint32_t unexplained = 0;  // retransmissions without a D-SACK
  bool open = false;
  bool resent = false;  // first_end, first_timestamp
  bool echo_judged = false;
  bool repaired = false;  // until
};

//= RFC 5682 3.1: the SACK-enhanced F-RTO tells genuine time-outs from spurious
//= ones
struct ForwardRto {
  enum Step : uint8_t {
    kOff,
    kHeadResent,  // step 2: only the first segment was resent
    kNewSent,     // step 3: then up to two new ones were sent
  };
  enum Finding : uint8_t { kUnknown, kSpurious, kGenuine };

  static constexpr uint8_t kNewSegments = 2;

  void Start() {
    step = kHeadResent;
    new_left = 0;
  }

  // `moved`: SND.UNA moved. `original`: data of before the time-out that were
  // never resent were acknowledged. `beyond`: newer data were SACKed.
  Finding OnAck(bool moved, bool covers_all, bool original, bool beyond,
                bool duplicate) {
    if (step == kOff) return kUnknown;
    if (step == kHeadResent) {
      if (!moved) return kUnknown;
      //= RFC 5682 3.1: if the first acknowledgement covers everything, F-RTO
      //= cannot tell which transmissions arrived
      if (covers_all) {
        step = kOff;
        return kGenuine;
      }
      step = kNewSent;
      new_left = kNewSegments;
      return kUnknown;
    }
    if (!original && !beyond && !moved && !duplicate) return kUnknown;
    step = kOff;
    return original ? kSpurious : kGenuine;
  }

  Step step = kOff;
  uint8_t new_left = 0;  // new segments that may still be sent
};

}  // namespace urnic::tcp
