#include "verbs/cli/rnic_process.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "verbs/control/control_protocol.h"

namespace urnic {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShort{20};

// What claims to be a program with an RNIC.
class FakeProgram {
 public:
  // To a client that has asked.
  using Answer = std::function<void(int fd)>;

  FakeProgram(const std::string& device, Answer answer)
      : rnic_{.device = device, .directory = testing::TempDir()},
        listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    // A socket address is short.
    EXPECT_EQ(chdir(rnic_.directory.c_str()), 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof(address.sun_path),
                  "%s" URNIC_CONTROL_SUFFIX, device.c_str());
    unlink(address.sun_path);
    EXPECT_EQ(
        bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
    EXPECT_EQ(listen(listener_, 8), 0);
    thread_ = std::jthread([this, answer = std::move(answer)] {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      char request[URNIC_CONTROL_REQUEST_MAX];
      if (recv(fd, request, sizeof(request), 0) > 0) answer(fd);
      close(fd);
    });
  }
  ~FakeProgram() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  const RnicProcess& rnic() const { return rnic_; }

 private:
  const RnicProcess rnic_;
  const int listener_;
  std::jthread thread_;
};

bool Send(int fd, std::string_view text) {
  return send(fd, text.data(), text.size(), MSG_NOSIGNAL) >= 0;
}

FakeProgram::Answer Says(std::string text) {
  return [text = std::move(text)](int fd) { Send(fd, text); };
}
// Until the client hangs up.
void KeepSilent(int fd) {
  char nothing;
  (void)recv(fd, &nothing, 1, 0);
}

std::string Message(const absl::StatusOr<std::string>& answer) {
  return std::string(answer.status().message());
}

TEST(RnicProcessTest, AnAnswerIsWithoutItsFirstLine) {
  FakeProgram program("ok", Says("ok\nline\n"));
  EXPECT_EQ(AskRnic(program.rnic(), "show qp").value(), "line\n");
}

// Between being found and being asked, or in the middle of its answer.
TEST(RnicProcessTest, AProgramThatHasEndedIsNotOneThatDoesNotAnswer) {
  FakeProgram program("ends", [](int) {
    std::filesystem::remove(testing::TempDir() + "/ends" URNIC_CONTROL_SUFFIX);
  });
  EXPECT_TRUE(absl::IsNotFound(AskRnic(program.rnic(), "show qp").status()));
  EXPECT_TRUE(absl::IsNotFound(AskRnic(program.rnic(), "show qp").status()));
  FakeProgram refuses("hangs-up", [](int) {});
  EXPECT_TRUE(absl::IsUnavailable(AskRnic(refuses.rnic(), "show qp").status()));
}

TEST(RnicProcessTest, AnAnswerThatDoesNotEndIsGivenUp) {
  FakeProgram program("endless", [](int fd) {
    while (Send(fd, "ok\n")) std::this_thread::sleep_for(kShort / 4);
  });
  const auto answer = AskRnic(program.rnic(), "show qp", kShort);
  EXPECT_TRUE(absl::IsUnavailable(answer.status()));
  EXPECT_NE(Message(answer).find("its answer does not end"), std::string::npos)
      << answer.status();
}

TEST(RnicProcessTest, AnAnswerThatIsTooLongIsGivenUp) {
  FakeProgram program("flood", [](int fd) {
    const std::string packet(URNIC_CONTROL_ANSWER_MAX, 'x');
    while (Send(fd, packet)) {
    }
  });
  const auto answer = AskRnic(program.rnic(), "show qp");
  EXPECT_TRUE(absl::IsUnavailable(answer.status()));
  EXPECT_NE(Message(answer).find("longer than 512 MiB"), std::string::npos)
      << answer.status();
}

TEST(RnicProcessTest, WhatControlsATerminalIsNotPrinted) {
  FakeProgram garbage("garbage", Says("\x1b]0;owned\x07"));
  const auto answer = AskRnic(garbage.rnic(), "show qp");
  EXPECT_NE(Message(answer).find("cannot read its answer"), std::string::npos);
  EXPECT_EQ(Message(answer).find('\x1b'), std::string::npos);
  FakeProgram refuses("refuses", Says("error\nfirst\x1b[2J\nsecond\n"));
  EXPECT_EQ(Message(AskRnic(refuses.rnic(), "show qp")), "first?[2J\nsecond");
}

// Each waits for the others: one after the other, none would be answered.
TEST(RnicProcessTest, AllAreAskedAtTheSameTime) {
  std::atomic<int> asked = 0;
  const auto together = [&](int fd) {
    for (++asked; asked != 3;) std::this_thread::yield();
    Send(fd, "ok\n");
  };
  FakeProgram first("first", together);
  FakeProgram silent("silent", KeepSilent);
  FakeProgram second("second", together);
  FakeProgram third("third", together);
  const auto answers =
      AskRnics({first.rnic(), silent.rnic(), second.rnic(), third.rnic()},
               "show qp", milliseconds(500));
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_TRUE(answers[0].ok() && answers[2].ok() && answers[3].ok());
  EXPECT_NE(Message(answers[1]).find("may be stopped"), std::string::npos)
      << answers[1].status();
}

}  // namespace
}  // namespace urnic
