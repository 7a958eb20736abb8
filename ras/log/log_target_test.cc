#include "ras/log/log_target.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

// What was given to syslog(), which this program replaces.
struct Said {
  int priority;
  std::string text;
};
std::vector<Said>& AllSaid() {
  static std::vector<Said> said;
  return said;
}

}  // namespace

#define URNIC_SAY(priority, format)                      \
  char text[2000];                                       \
  va_list arguments;                                     \
  va_start(arguments, format);                           \
  std::vsnprintf(text, sizeof(text), format, arguments); \
  va_end(arguments);                                     \
  AllSaid().push_back({priority, text})

extern "C" void syslog(int priority, const char* format, ...) {
  URNIC_SAY(priority, format);
}
// What _FORTIFY_SOURCE calls instead.
extern "C" void __syslog_chk(int priority, int, const char* format, ...) {
  URNIC_SAY(priority, format);
}

namespace urnic {
namespace {

Facts Record(std::string_view severity = "error") {
  std::string line;
  {
    FactWriter facts("error", line);
    facts.Add("link", "urnic0/1");
    facts.Add("lqpn", 17);
    facts.Add("code", "URN1001");
    facts.Add("severity", severity);
    facts.Add("what", "No answer.");
    facts.Add("why", "a\nb");
    facts.Add("wr-id", UINT64_MAX);
  }
  line.pop_back();
  return *ParseFacts(line);
}

class LogTargetTest : public ::testing::Test {
 protected:
  // Not in the test's own directory: a socket address holds 107 characters.
  LogTargetTest() {
    EXPECT_NE(mkdtemp(directory_), nullptr);
    path_ = std::string(directory_) + "/log";
  }
  ~LogTargetTest() override { std::filesystem::remove_all(directory_); }

  char directory_[64] = "/dev/shm/urnic-log-XXXXXX";
  std::string path_;
};

TEST_F(LogTargetTest, AFileHasALineOfJsonForEachRecord) {
  auto target = *MakeLogTarget("json:" + path_);
  EXPECT_EQ(target->Write(Record()), 0);
  // Renamed by logrotate: the next one begins a new file.
  std::filesystem::rename(path_, path_ + ".1");
  EXPECT_EQ(target->Write(Record()), 0);
  EXPECT_EQ(target->Write(Record()), 0);
  struct stat file = {};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777u, 0600u);
  std::ifstream in(path_);
  std::string line;
  int lines = 0;
  for (; std::getline(in, line); ++lines) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["lqpn"], 17);
    EXPECT_EQ(json["why"], "a\nb");
    EXPECT_EQ(json["wr-id"], UINT64_MAX);
  }
  EXPECT_EQ(lines, 2);
}

TEST_F(LogTargetTest, WhatCannotBeWrittenIsAnErrno) {
  EXPECT_EQ((*MakeLogTarget("json:/no/such/directory/file"))->Write(Record()),
            ENOENT);
  EXPECT_EQ((*MakeLogTarget("json:/dev/full"))->Write(Record()), ENOSPC);
  EXPECT_EQ((*MakeLogTarget("journal", path_))->Write(Record()), ENOENT);
}

TEST_F(LogTargetTest, APlaceIsCheckedBeforeTheFirstRecord) {
  EXPECT_EQ((*MakeLogTarget("json:/no/such/directory/file"))->Check(), ENOENT);
  EXPECT_EQ((*MakeLogTarget("journal", path_))->Check(), ENOENT);
  EXPECT_EQ((*MakeLogTarget("syslog"))->Check(), 0);
  EXPECT_EQ((*MakeLogTarget("json:" + path_))->Check(), 0);
  EXPECT_EQ(std::filesystem::file_size(path_), 0u);
}

TEST_F(LogTargetTest, AFifoWithoutAReaderStopsNobody) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  auto target = *MakeLogTarget("json:" + path_);
  EXPECT_EQ(target->Check(), ENXIO);
  EXPECT_EQ(target->Write(Record()), ENXIO);
}

TEST_F(LogTargetTest, TheJournalGetsAFieldForEachFact) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  auto target = *MakeLogTarget("journal", path_);
  EXPECT_EQ(target->Check(), 0);
  ASSERT_EQ(target->Write(Record("warning")), 0);
  char datagram[2000];
  const ssize_t bytes = recv(fd, datagram, sizeof(datagram), 0);
  ASSERT_GT(bytes, 0);
  EXPECT_EQ(std::string(datagram, static_cast<size_t>(bytes)),
            "MESSAGE=urnic0/1 qp 17: URN1001: No answer. why: a b\n"
            "PRIORITY=4\n"
            "SYSLOG_IDENTIFIER=urnic\n"
            "URNIC_LINK=urnic0/1\n"
            "URNIC_LQPN=17\n"
            "URNIC_CODE=URN1001\n"
            "URNIC_SEVERITY=warning\n"
            "URNIC_WHAT=No answer.\n"
            "URNIC_WHY=a b\n"
            "URNIC_WR_ID=18446744073709551615\n");
  // A journal that does not read loses records; it does not stop us.
  int error = 0;
  for (int i = 0; i < 100'000 && error == 0; ++i)
    error = target->Write(Record());
  EXPECT_EQ(error, EAGAIN);
  close(fd);
}

TEST_F(LogTargetTest, SyslogGetsASentence) {
  ASSERT_EQ((*MakeLogTarget("syslog"))->Write(Record()), 0);
  ASSERT_EQ(AllSaid().size(), 1u);
  EXPECT_EQ(AllSaid()[0].priority, LOG_DAEMON | LOG_ERR);
  EXPECT_EQ(AllSaid()[0].text,
            "urnic: urnic0/1 qp 17: URN1001: No answer. why: a\nb");
}

TEST_F(LogTargetTest, OtherPlacesAreRefused) {
  for (const char* const text : {"", "json:", "Journal", "file"}) {
    EXPECT_FALSE(MakeLogTarget(text).ok()) << text;
  }
}

}  // namespace
}  // namespace urnic
