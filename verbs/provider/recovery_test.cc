// Ports that go down for a short or a long time, are removed, reset and frozen,
// and what the program sees (verbs/control/recovery.h). Each part is a program
// of its own, because a port's faults count from the moment when it is opened.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "verbs/provider/testing/own_program.h"
#include "verbs/provider/testing/shown.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A part is not ready when its fault begins.
constexpr int kTooSlow = 43;
constexpr char kStartVariable[] = "RECOVERY_TEST_START_MS";

// Runs a part with two ports that a ring connects. The first has the fault, in
// which $ is the time when it begins: as late as this machine needs.
void RunPart(const char* part, const char* fault, const char* bound) {
  int status = kTooSlow;
  for (int start = 500; status == kTooSlow && start < 60'000; start *= 2) {
    const auto prepare = [=] {
      const std::string text =
          absl::StrReplaceAll(fault, {{"$", absl::StrCat(start, "ms")}});
      setenv(kStartVariable, absl::StrCat(start).c_str(), 1);
      setenv("URNIC_PORTS",
             absl::StrCat("ring:t:a|10.9.0.1/24|fault=", text,
                          ";ring:t:b|10.9.0.2/24")
                 .c_str(),
             1);
      setenv("URNIC_RECOVERY", absl::StrCat("bound:", bound).c_str(), 1);
      // Waiting for what never comes ends with SIGALRM.
      alarm(120);
    };
    status = StatusOfOwnProgram(absl::StrCat("RecoveryTest.DISABLED_", part),
                                prepare);
  }
  EXPECT_EQ(status, kPartIsDone);
}

// In a part: the same time.
std::chrono::milliseconds FaultStart() {
  return std::chrono::milliseconds(atoi(getenv(kStartVariable)));
}

// What a part ends with.
void EndPart() { _exit(::testing::Test::HasFailure() ? 1 : kPartIsDone); }

// The next asynchronous event of the device.
int NextEvent(ibv_context* device) {
  ibv_async_event event = {};
  if (ibv_get_async_event(device, &event) != 0) return -1;
  ibv_ack_async_event(&event);
  return event.event_type;
}
void AwaitEvent(ibv_context* device, int type) {
  while (NextEvent(device) != type) {
  }
}
bool HasEvent(ibv_context* device) {
  pollfd fd = {device->async_fd, POLLIN, 0};
  return poll(&fd, 1, 0) == 1;
}

// Queue pairs of the two devices, connected, that give up their peer after 537
// ms. The fault has not begun yet.
struct Impatient {
  static PairOptions Options() {
    PairOptions options;
    options.timeout = 16;  // 268 ms
    options.retry_cnt = 1;
    return options;
  }
  Impatient() : a(first, Options()), b(second, Options()) {
    a.set_peer(b);
    b.set_peer(a);
    a.Connect(b.qp()->qp_num);
    b.Connect(a.qp()->qp_num);
    if (std::chrono::steady_clock::now() - opened > FaultStart() / 2)
      _exit(kTooSlow);
  }
  // One message, to the end.
  ibv_wc_status Send() {
    EXPECT_EQ(b.PostRecv(0, {b.Sge(0, 8)}), 0);
    EXPECT_EQ(a.PostSend({a.Sge(0, 8)}), 0);
    const ibv_wc_status status = a.Poll().status;
    ibv_wc received;
    (void)ibv_poll_cq(b.cq(), 1, &received);
    return status;
  }

  const std::chrono::steady_clock::time_point opened =
      std::chrono::steady_clock::now();
  OpenDevice first;
  OpenDevice second{OpenDevice::kLast};
  End a;
  End b;
};

// --- What is shown
// ------------------------------------------------------------

TEST(RecoveryTest, AnOutageIsShownWithItsEnd) {
  RunPart("AnOutageIsShown", "down=$:2s", "1000s");
}
TEST(RecoveryTest, DISABLED_AnOutageIsShown) {
  {
    Impatient pair;
    EXPECT_THAT(Shown("link"), Not(HasSubstr("down-since")));
    AwaitEvent(pair.first, IBV_EVENT_PORT_ERR);
    const std::string down = Shown("link");
    EXPECT_THAT(down, HasSubstr("device-state:works"));
    EXPECT_THAT(down, HasSubstr("\tdown-since:20"));
    EXPECT_THAT(down, HasSubstr("\tbound-ms=1000000"));
    EXPECT_THAT(down, ContainsRegex("\tfails-in-ms=99[0-9]{4}"));
    AwaitEvent(pair.first, IBV_EVENT_PORT_ACTIVE);
    EXPECT_THAT(Shown("link"), Not(HasSubstr("down-since")));
  }
  EndPart();
}

// --- Short enough ------------------------------------------------------------

void ExpectAllStays() {
  {
    Impatient pair;
    EXPECT_EQ(pair.Send(), IBV_WC_SUCCESS);
    AwaitEvent(pair.first, IBV_EVENT_PORT_ERR);
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(pair.first, 1, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_DOWN);
    // Posted while nothing leaves.
    EXPECT_EQ(pair.Send(), IBV_WC_SUCCESS);
    EXPECT_EQ(NextEvent(pair.first), IBV_EVENT_PORT_ACTIVE);
    EXPECT_FALSE(HasEvent(pair.first));
    EXPECT_EQ(pair.a.State(), IBV_QPS_RTS);
    EXPECT_EQ(pair.Send(), IBV_WC_SUCCESS);
  }
  EndPart();
}

TEST(RecoveryTest, ALinkThatFlapsKeepsQueuePairs) {
  RunPart("ALinkFlaps", "down=$:1s", "20s");
}
TEST(RecoveryTest, DISABLED_ALinkFlaps) { ExpectAllStays(); }

TEST(RecoveryTest, ADeviceThatIsResetKeepsQueuePairs) {
  RunPart("ADeviceIsReset", "reset=$", "20s");
}
TEST(RecoveryTest, DISABLED_ADeviceIsReset) { ExpectAllStays(); }

TEST(RecoveryTest, AFrozenDeviceKeepsQueuePairs) {
  RunPart("ADeviceIsFrozen", "freeze=$:1s", "20s");
}
TEST(RecoveryTest, DISABLED_ADeviceIsFrozen) {
  {
    Impatient pair;
    const auto end =
        pair.opened + FaultStart() + std::chrono::milliseconds(1500);
    uint32_t sent = 0;
    for (; std::chrono::steady_clock::now() < end; ++sent)
      ASSERT_EQ(pair.Send(), IBV_WC_SUCCESS) << sent;
    EXPECT_GT(sent, 100u);
  }
  EndPart();
}

// --- Too long ----------------------------------------------------------------

// Everything but what ends objects.
void ExpectBusy(Impatient& pair) {
  ibv_wc wc = {};
  errno = 0;
  EXPECT_LT(ibv_poll_cq(pair.a.cq(), 1, &wc), 0);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), EBUSY);
  EXPECT_EQ(pair.a.PostRecv(0, {pair.a.Sge(0, 8)}), EBUSY);
  EXPECT_EQ(pair.a.To(IBV_QPS_INIT), EBUSY);
  errno = 0;
  EXPECT_EQ(ibv_alloc_pd(pair.first), nullptr);
  EXPECT_EQ(errno, EBUSY);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pair.a.pd(), pair.a.memory(), 8, 0), nullptr);
  EXPECT_EQ(errno, EBUSY);
  errno = 0;
  EXPECT_EQ(ibv_create_cq(pair.first, 8, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EBUSY);
  ibv_port_attr port = {};
  EXPECT_EQ(ibv_query_port(pair.first, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  EXPECT_EQ(pair.a.State(), IBV_QPS_ERR);
}

// The device fails, and works again when its queue pair is gone.
void ExpectFailureAndRecovery() {
  {
    Impatient pair;
    EXPECT_EQ(pair.Send(), IBV_WC_SUCCESS);
    EXPECT_EQ(pair.a.PostRecv(7, {pair.a.Sge(0, 8)}), 0);
    EXPECT_EQ(NextEvent(pair.first), IBV_EVENT_PORT_ERR);
    EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
    EXPECT_EQ(NextEvent(pair.first), IBV_EVENT_DEVICE_FATAL);
    EXPECT_EQ(NextEvent(pair.first), IBV_EVENT_QP_FATAL);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(pair.a.Poll().status, IBV_WC_WR_FLUSH_ERR);
    // Until the last requests are flushed, it is only empty.
    ibv_wc wc = {};
    while (ibv_poll_cq(pair.a.cq(), 1, &wc) == 0) {
    }
    ExpectBusy(pair);
    EXPECT_THAT(Shown("link"),
                AllOf(Not(HasSubstr("fails-in-ms")),
                      HasSubstr("the device failed, and waits until ")));
    pair.a.DestroyQp();
    AwaitEvent(pair.first, IBV_EVENT_PORT_ACTIVE);
    // The other device is as it was.
    EXPECT_FALSE(HasEvent(pair.second));
    End next(pair.first, Impatient::Options());
    End peer(pair.second, Impatient::Options());
    next.set_peer(peer);
    peer.set_peer(next);
    next.Connect(peer.qp()->qp_num);
    peer.Connect(next.qp()->qp_num);
    EXPECT_EQ(peer.PostRecv(0, {peer.Sge(0, 8)}), 0);
    EXPECT_EQ(next.PostSend({next.Sge(0, 8)}), 0);
    EXPECT_EQ(next.Poll().status, IBV_WC_SUCCESS);
  }
  EndPart();
}

TEST(RecoveryTest, ALinkThatStaysDownFailsTheDevice) {
  RunPart("ALinkStaysDown", "down=$:1200ms", "300ms");
}
TEST(RecoveryTest, DISABLED_ALinkStaysDown) { ExpectFailureAndRecovery(); }

TEST(RecoveryTest, ARemovedDeviceFailsAtOnce) {
  RunPart("ADeviceIsRemoved", "remove=$:300ms", "1000s");
}
TEST(RecoveryTest, DISABLED_ADeviceIsRemoved) { ExpectFailureAndRecovery(); }

// The other way to give a queue pair back.
TEST(RecoveryTest, AQueuePairThatIsResetIsGivenBack) {
  RunPart("AQueuePairIsReset", "remove=$:100ms", "1000s");
}
TEST(RecoveryTest, DISABLED_AQueuePairIsReset) {
  {
    Impatient pair;
    AwaitEvent(pair.first, IBV_EVENT_QP_FATAL);
    EXPECT_EQ(pair.a.To(IBV_QPS_RESET), 0);
    AwaitEvent(pair.first, IBV_EVENT_PORT_ACTIVE);
    EXPECT_EQ(pair.a.ToInit(), 0);
  }
  EndPart();
}

// --- A program that keeps its queue pairs ------------------------------------

TEST(RecoveryTest, WhoBlocksTheRecoveryIsNamed) {
  RunPart("BlocksTheRecovery", "remove=$:50ms", "200ms");
}
TEST(RecoveryTest, DISABLED_BlocksTheRecovery) {
  {
    Impatient pair;
    EXPECT_EQ(Shown("offender"), "");
    AwaitEvent(pair.first, IBV_EVENT_QP_FATAL);
    while (Shown("offender").empty()) usleep(10'000);
    const std::string list = Shown("offender");
    EXPECT_THAT(list, HasSubstr("recovery"));
    EXPECT_THAT(list, HasSubstr(absl::StrCat("urnic0 ", pair.a.qp()->qp_num)));
    EXPECT_THAT(list, HasSubstr(absl::StrCat(getpid())));
    EXPECT_THAT(Shown("error"), HasSubstr("URN1915"));
    EXPECT_THAT(Shown("link"),
                HasSubstr("the device failed, and waits until the program has "
                          "destroyed or reset 1 queue pair"));
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(pair.first, 1, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_DOWN);
    pair.a.DestroyQp();
    AwaitEvent(pair.first, IBV_EVENT_PORT_ACTIVE);
    EXPECT_EQ(Shown("offender"), "");
    EXPECT_THAT(Shown("error"), HasSubstr("URN1914"));
    EXPECT_THAT(Shown("link"), Not(HasSubstr("waits until")));
  }
  EndPart();
}

// --- Without a system call ---------------------------------------------------

std::atomic<int> g_calls = 0;
std::atomic<int> g_last_call = 0;

void CountCall(int, siginfo_t* info, void*) {
  ++g_calls;
  g_last_call = info->si_syscall;
}

// From now on each system call of this thread fails, and is counted.
void CatchSystemCalls() {
  struct sigaction action = {};
  action.sa_sigaction = CountCall;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGSYS, &action, nullptr), 0);
  sigset_t none;
  sigemptyset(&none);
  sigaddset(&none, SIGSYS);
  ASSERT_EQ(pthread_sigmask(SIG_UNBLOCK, &none, nullptr), 0);
  // Returning from the handler is a call.
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

TEST(RecoveryTest, AFailureIsSeenWithoutASystemCall) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer keeps the signal of a system call back";
#endif
  RunPart("SeesIt", "remove=$:20s", "1000s");
}
TEST(RecoveryTest, DISABLED_SeesIt) {
  {
    Impatient pair;
    AwaitEvent(pair.first, IBV_EVENT_QP_FATAL);
    ibv_wc wc = {};
    while (ibv_poll_cq(pair.a.cq(), 1, &wc) >= 0) {
    }
    std::atomic<int> refused = 0;
    std::atomic<int> calls = -1;
    std::atomic<int> last_call = 0;
    std::atomic<bool> done = false;
    // It never ends: that would take system calls.
    std::thread([&] {
      ibv_send_wr send = {};
      ibv_recv_wr receive = {};
      ibv_send_wr* bad_send = nullptr;
      ibv_recv_wr* bad_receive = nullptr;
      const auto call_all = [&] {
        refused += ibv_post_send(pair.a.qp(), &send, &bad_send) == EBUSY;
        refused += ibv_post_recv(pair.a.qp(), &receive, &bad_receive) == EBUSY;
        refused += ibv_poll_cq(pair.a.cq(), 1, &wc) < 0 && errno == EBUSY;
      };
      call_all();  // what a thread does once, at its first verb
      CatchSystemCalls();
      for (int i = 1; i < 100; ++i) call_all();
      calls = g_calls.load();
      last_call = g_last_call.load();
      (void)getppid();  // the count counts
      done = true;
      for (;;) {
      }
    }).detach();
    while (!done) usleep(1000);
    EXPECT_EQ(g_calls, calls + 1);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    // A sanitizer's runtime has calls of its own.
    EXPECT_EQ(calls, 0) << "the last one before it is " << last_call;
#endif
    EXPECT_EQ(refused, 300);
  }
  EndPart();
}

}  // namespace
}  // namespace urnic
