#pragma once

// Derives from a flow's sequence numbers when a round ends, and whether the
// window was used. For any transport with cumulative acknowledgements.

namespace urnic::cc {

// Seq: a sequence number on a circle; `a - b` is a signed distance.
template <typename Seq>
struct FlowRounds {
  // Restarts the flow.
  void Start(Seq next) {
    *this = FlowRounds();
    end = next;
  }

  // The window is full.
  void OnWindowFull() { filled = true; }

  // Everything before `una` is acknowledged. True: the round is over, and a new
  // one begins that ends at `sent`.
  bool Take(Seq una, Seq sent) {
    if (una - end < 0) return false;
    end = sent;
    filled_before = filled;
    filled = false;
    return true;
  }

  bool app_limited() const { return !filled && !filled_before; }

  Seq end;
  bool filled = false;         // the window was full in this round
  bool filled_before = false;  // and in the one before
};

}  // namespace urnic::cc
