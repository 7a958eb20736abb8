#pragma once

// The runner inside another program: a thread that runs the engine when no
// thread of the program does.
//
// Two modes (docs/design/0002-the-token.md):
//   watching  The program polls. The helper checks now and then whether it
//             still does. If the number of polls has not changed, the helper
//             takes over. If it then finds that frames had to wait, the program
//             spins on memory: from then on the port wakes the helper while
//             nobody polls (listen_policy.h).
//   active    The helper runs the engine: after traffic it polls for a
//             moment, then arms the port's wake-up and sleeps in poll().
// A program that polls only now and then does not change an active helper: both
// work under the token. A program that keeps polling sends the helper back to
// watching, so that the port need not raise wake-ups.

#include <atomic>
#include <cstdint>
#include <thread>

#include "absl/status/status.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/listen_policy.h"
#include "datapath/engine/runner.h"
#include "datapath/engine/sleeper.h"
#include "datapath/engine/spin_policy.h"
#include "transport/base/time.h"

namespace urnic {

class HelperThread final : public Runner {
 public:
  // Starts the thread as the runner of the engine. All its signals are blocked
  // except those of the memory guard (guarded_memory.h). It inherits the
  // caller's affinity. RESOURCE_EXHAUSTED: no more descriptors, or threads.
  static absl::Status Start(Engine& engine);
  // Stops and joins.
  ~HelperThread() override;

  void OnProgramPoll(Time now, bool leaves) override;
  void BeforeRelease(bool work_left, Time next_deadline) override {
    sleeper_.BeforeRelease(work_left, next_deadline);
  }
  void HandOver() override {
    if (!active()) TakeOver();
  }

 private:
  HelperThread(Engine& engine, int event_fd);
  void Run();
  // Why a watching helper takes over.
  enum class Cause : uint8_t { kAsked, kNoPoll, kWoken };

  // Returns when the program stops polling, or on stop.
  Cause Watch();
  // Returns when the program polls again, or on stop.
  void Serve(Cause cause);
  // Token holder, while the helper watches and listens to the port.
  void Listen(bool leaves);
  // Sleeps at most for `polled` if the port cannot wake the helper. False: it
  // did not sleep, because there was work or another thread was inside.
  bool Sleep(Duration polled);
  // One iteration; true if there was work.
  bool Iterate(Engine::Turn& turn);
  void Disarm();
  void TakeOver();
  // True if the port has ended the wait.
  bool Wait(int64_t timeout_ns, int port_fd);
  uint64_t packets_accepted() const;

  Engine& engine_;
  Sleeper sleeper_;
  SpinPolicy spin_;  // this thread's
  ListenPolicy listen_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> hand_over_{false};
  std::atomic<uint64_t> polls_{0};  // written by token holders only

  // Token holder only.
  Time last_poll_;
  Time poll_run_start_;
  bool armed_ = false;         // the port raises wake-ups
  bool port_wakes_ = true;     // it did when it was last armed
  bool can_be_woken_ = false;  // at the last sleep

  std::thread thread_;
};

}  // namespace urnic
