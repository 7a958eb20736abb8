#pragma once

// What happens to a device when its port goes down (document E, 5.2.3):
//
//   works ── port down ──► down ── back within the bound ──► works
//     ▲                      │
//     │                      │ the bound is over, or the interface was removed
//     │                      ▼
//     └── port back, and   failed
//         queue pairs gone
//
// While the port is down, all connections stay: the engine does not give up on
// peers that it cannot reach (Engine::SetOutage).
//
// When the device fails, all queue pairs go to ERR, except for those in RESET
// and INIT. The program gets an event for each queue pair (IBV_EVENT_QP_FATAL)
// and one for each context (IBV_EVENT_DEVICE_FATAL), and ids of rdma_cm get
// RDMA_CM_EVENT_DEVICE_REMOVAL. From then on, calls that create, connect or
// post something are refused (EBUSY); calls that destroy something are not.
//
// The device works again (IBV_EVENT_PORT_ACTIVE) when the port is back and the
// failed queue pairs are destroyed or reset. Once the port is back, the program
// has the time of the bound, and at least a second, to destroy or reset one of
// them; the time starts again with each. If it does not, the program is
// reported: `urnic show offender`, and ErrorCode::kRecoveryBlocked.
//
// URNIC_RECOVERY=bound:10s is the default; a number with ms or s.
//
// Any thread may call. A thread of its own runs from the moment when the port
// goes down until the device works again.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "datapath/port/port.h"
#include "transport/base/time.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic::control {

class OpenNic;

// Parses URNIC_RECOVERY. False: `mistake` says what is wrong.
bool ParseRecoveryBound(std::string_view text, Duration& bound,
                        std::string& mistake);

class Recovery {
 public:
  // `nic` outlives this object. A mistake in URNIC_RECOVERY is reported, and
  // the default is used.
  explicit Recovery(OpenNic& nic);
  // REQUIRES: the NIC still exists.
  ~Recovery();
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  // The port's state has changed. Called by the port's thread.
  void OnPort(const PortInfo& info);

  // An error while the device has failed (ErrorCode::kRecovering).
  absl::Status CheckWorks() const;
  bool works() const { return state() == URNIC_DEVICE_WORKS; }
  // For posting and polling threads. Lives as long as this object.
  const urnic_mailbox* mailbox() const { return mailbox_.get(); }
  Duration bound() const { return bound_; }

  // While the port is down.
  struct Outage {
    Time since;  // of the engine's clock
    // Until the device fails. None: it has failed already, or will not.
    std::optional<Duration> fails_in;
  };
  // None: the port is up, or has never been up.
  std::optional<Outage> outage() const;
  // What the device waits for before it works again, as in "the device failed,
  // and waits until the program has destroyed or reset 2 queue pairs". Empty:
  // it works. Any thread; takes no lock.
  std::string AwaitedText() const;

 private:
  // The link of the port, as last reported.
  enum class Link : uint8_t { kUp, kDown, kRemoved };

  struct FreePage {
    void operator()(urnic_mailbox* page) const;
  };

  urnic_device_state state() const {
    return static_cast<urnic_device_state>(
        std::atomic_ref(mailbox_->state).load(std::memory_order_acquire));
  }
  void SetState(urnic_device_state state);
  void Wake();
  // Sleeps until Wake() is called, but for `most` at most.
  void SleepFor(Duration most) const;
  // The thread: from the moment when the port goes down until the device works
  // again.
  void Run();
  // Waits until the bound is over or the port is back. False: the port is back,
  // or this object is being destroyed.
  bool IsDownForLong() const;
  void Fail();
  // Returns when the device works again, or this object is being destroyed.
  void AwaitRecovered();

  OpenNic& nic_;
  const Duration bound_;
  const std::unique_ptr<urnic_mailbox, FreePage> mailbox_;
  std::atomic<Link> link_ = Link::kUp;
  std::atomic<int64_t> down_since_ns_ = 0;  // of the engine's clock
  std::atomic<bool> stop_ = false;
  std::atomic<size_t> failed_qps_ = 0;  // not yet destroyed or reset
  int wake_fd_ = -1;
  mutable std::mutex mutex_;  // of the members below
  bool was_up_ = false;       // false: there is nothing to recover
  std::string why_;           // the port's words
  bool runs_ = false;
  std::thread thread_;
};

}  // namespace urnic::control
