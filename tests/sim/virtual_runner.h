#pragma once

// A runner in virtual time (datapath/engine/runner.h): its engine gets a turn
// after a frame has arrived, when there is work, and after a deadline. Each
// turn is a moment late, as on a machine that has other things to do.

#include <functional>
#include <utility>

#include "datapath/engine/engine.h"
#include "tests/sim/sim_port.h"
#include "tests/sim/world.h"

namespace urnic::sim {

class VirtualRunner final : public Runner {
 public:
  // `program_polls`: turns are the program's polls, else a helper's. `ahead`:
  // how far the engine's clock is ahead of the world's. One turn of
  // `busy_one_in` is much later. `after_turn` may be null.
  VirtualRunner(World& world, Engine& engine, const SimPort& port,
                uint64_t seed, bool program_polls, uint64_t busy_one_in,
                Duration ahead, std::function<void()> after_turn)
      : Runner(/*active=*/!program_polls),
        world_(world),
        engine_(engine),
        port_(port),
        random_(seed),
        program_polls_(program_polls),
        busy_one_in_(busy_one_in),
        ahead_(ahead),
        after_turn_(std::move(after_turn)) {}

  // A frame has arrived.
  void Wake() { Plan(world_.now() + Moment()); }

 private:
  void OnProgramPoll(Time, bool) override {}
  void HandOver() override {}
  void BeforeRelease(bool work_left, Time next_deadline) override {
    if (work_left) return Plan(world_.now() + Moment());
    if (!next_deadline.IsInfinite()) Plan(next_deadline - ahead_);
  }

  Duration Moment() {
    const uint64_t most_ns = random_.OneIn(busy_one_in_) ? 300000 : 2000;
    return Duration::Nanoseconds(100 +
                                 static_cast<int64_t>(random_.Below(most_ns)));
  }

  // At `when`, unless a turn comes earlier.
  void Plan(Time when) {
    if (when >= planned_) return;
    planned_ = when;
    world_.At(when, [this, when] {
      if (planned_ != when) return;
      planned_ = Time::Infinite();
      TakeTurn();
    });
  }

  void TakeTurn() {
    if (program_polls_) {
      Require(engine_.Progress(), "somebody else is inside");
    } else {
      Require(engine_.TakeTurn([&](Engine::Turn& turn) {
        turn.Iterate();
        BeforeRelease(turn.WorkLeft(), turn.NextDeadline());
      }),
              "somebody else is inside");
    }
    if (port_.has_frames()) Wake();
    if (after_turn_ != nullptr) after_turn_();
  }

  World& world_;
  Engine& engine_;
  const SimPort& port_;
  Random random_;
  const bool program_polls_;
  const uint64_t busy_one_in_;
  const Duration ahead_;
  const std::function<void()> after_turn_;
  Time planned_ = Time::Infinite();
};

}  // namespace urnic::sim
