#pragma once

// For tests of ports: frames with a number in them, and waiting.

#include <rte_mbuf.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "datapath/guest/eal.h"
#include "datapath/port/port.h"

namespace urnic {

inline constexpr uint16_t kTestEtherType = 0x88b5;  // for local experiments

// Broadcast, our EtherType, then `number`. nullptr if the pool is empty.
inline rte_mbuf* TestFrame(Port& port, uint64_t number, uint16_t bytes = 64) {
  rte_mbuf* m = rte_pktmbuf_alloc(port.pool());
  if (m == nullptr) return nullptr;
  auto* data = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(m, bytes));
  if (data == nullptr) {  // longer than a buffer
    rte_pktmbuf_free(m);
    return nullptr;
  }
  std::memset(data, 0, bytes);
  std::memset(data, 0xff, 6);
  std::memcpy(data + 6, port.mac().bytes.data(), 6);
  data[12] = kTestEtherType >> 8;
  data[13] = kTestEtherType & 0xff;
  std::memcpy(data + 16, &number, sizeof(number));
  return m;
}

inline bool IsTestFrame(const rte_mbuf* m) {
  const auto* data = rte_pktmbuf_mtod(m, const uint8_t*);
  return m->data_len >= 24 && data[12] == (kTestEtherType >> 8) &&
         data[13] == (kTestEtherType & 0xff);
}

inline uint64_t NumberOf(const rte_mbuf* m) {
  uint64_t number;
  std::memcpy(&number, rte_pktmbuf_mtod_offset(m, const uint8_t*, 16), 8);
  return number;
}

// Sends one frame; false if it could not.
inline bool Send(Port& port, uint64_t number, uint16_t bytes = 64) {
  rte_mbuf* m = TestFrame(port, number, bytes);
  if (m == nullptr) return false;
  TakeLcore(port.lcore());
  const bool sent = port.Transmit(&m, 1) == 1;
  if (!sent) rte_pktmbuf_free(m);
  ReleaseLcore();
  return sent;
}

// Receives; returns the numbers of the test frames.
inline std::vector<uint64_t> ReceiveNumbers(Port& port) {
  std::vector<uint64_t> numbers;
  rte_mbuf* frames[kBurstMax];
  TakeLcore(port.lcore());
  while (const uint16_t n = port.Receive(frames, kBurstMax)) {
    for (uint16_t i = 0; i < n; ++i) {
      if (IsTestFrame(frames[i])) numbers.push_back(NumberOf(frames[i]));
    }
    rte_pktmbuf_free_bulk(frames, n);
  }
  ReleaseLcore();
  return numbers;
}

// The longest wait for an expected event: enough for a busy machine.
inline constexpr int kPatienceMs = 30'000;

template <typename F>
bool Eventually(F condition, int timeout_ms = kPatienceMs) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// True once a frame that was sent after the call returns.
inline bool RoundTrip(Port& port, int timeout_ms = kPatienceMs) {
  static uint64_t next = 1;
  const uint64_t first = next;
  return Eventually(
      [&] {
        Send(port, next++);
        for (uint64_t number : ReceiveNumbers(port)) {
          if (number >= first) return true;
        }
        return false;
      },
      timeout_ms);
}

// Waits until no frame is in flight, by sending one more: frames arrive in
// order.
inline bool NothingIsUnderWay(Port& port) {
  constexpr uint64_t kMark = ~uint64_t{0} - 1;
  if (!Send(port, kMark)) return false;
  return Eventually([&] {
    const std::vector<uint64_t> numbers = ReceiveNumbers(port);
    return !numbers.empty() && numbers.back() == kMark;
  });
}

inline bool StateBecomes(Port& port, PortState state,
                         int timeout_ms = kPatienceMs) {
  return Eventually([&] { return port.info().state == state; }, timeout_ms);
}

// Another program; killed when this object is destroyed, or earlier.
class Process {
 public:
  explicit Process(const std::vector<std::string>& words) {
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::vector<char*> argv;
    for (const std::string& word : words) {
      argv.push_back(const_cast<char*>(word.c_str()));
    }
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Process() { Kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number) const { kill(pid_, number); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace urnic
