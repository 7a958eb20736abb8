#pragma once

// Runs a script against our TCP, in virtual time.

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "tests/packetdrill/calls.h"
#include "tests/packetdrill/match.h"
#include "tests/packetdrill/outcome.h"
#include "tests/packetdrill/script.h"
#include "tests/packetdrill/stack.h"

namespace urnic::packetdrill {

struct Report {
  Outcome outcome;
  // What assertions need that has no equivalent here; they are not checked.
  std::set<std::string> skipped;
};

// One script each.
class Runner {
 public:
  Runner() : calls_(&stack_) {}
  Report Run(std::string_view text);

 private:
  // A call that blocks until another thread of the script lets it go on.
  struct Pending {
    Call call;
    Time end;
    int line = 0;
  };

  Outcome RunEvents();
  Outcome RunEvent(const Event& event);
  Outcome RunCall(const Event& event, const Call& call);
  void Receive(const Packet& packet);
  Outcome Expect(const Event& event, const Packet& packet);
  // Waits for one more segment of ours.
  bool AwaitSent(Time until);
  Outcome ExpectPart(const Packet& packet, const Part& part, Time earliest,
                     Time latest);
  // Looks whether the blocked call returns now.
  void PollPending();
  void AdvanceTo(Time then);
  // The first SYN of the peer in a connection.
  void LearnPeersSyn(const Packet& packet);
  SeqNum peers_iss() const { return kPeersOrigin + peers_syn_; }
  Origin origin() const { return {stack_.iss(), peers_iss(), peers_syn_}; }
  std::string Clock(Time time) const;

  // The number zero of the peer's SYNs. It wraps soon.
  static constexpr SeqNum kPeersOrigin{0xffffff00};

  Script script_;
  Stack stack_;
  Calls calls_;
  Timestamps timestamps_;
  std::optional<Pending> pending_;
  Outcome pending_outcome_;
  std::set<std::string> skipped_;
  uint32_t peers_syn_ = 0;
  int syn_known_of_ = -1;  // the number of the connection
  Time start_;
  Time previous_;  // when the last event was due
};

}  // namespace urnic::packetdrill
