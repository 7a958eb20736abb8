#pragma once

// Runs a packet script against one queue pair in virtual time. The grammar is
// in tests/scripts/README.md.

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/scripts/packet_text.h"
#include "tests/scripts/words.h"
#include "tests/support/endpoint.h"

namespace urnic::scripts {

// The rights of the letters "lwraibfz"; "-" is none.
bool ParseAccess(const std::string& text, uint32_t& out);

class Runner {
 public:
  Runner();
  // Runs the whole text, once per Runner. Returns "" or what went wrong:
  // "line 12: ...", followed by everything that happened up to there.
  std::string Run(std::string_view text);

 private:
  struct Region {
    size_t offset = 0;
    size_t length = 0;
    uint32_t key = 0;
  };
  struct Sent {
    Time when;
    testing::Packet packet;
  };

  // Sets error_; returns false.
  bool Fail(const std::string& message);
  void Note(const std::string& what);

  // `more`: the next line belongs to the same moment.
  bool RunLine(Words& words, bool more);
  bool RunVerb(Words& words, const std::string& verb);

  // Set-up, before the first step (runner_setup.cc).
  bool SetUp(Words& words);
  bool SetUpQp(Words& words);
  bool SetConfig(const std::string& key, uint64_t value);
  bool SetUpRegion(Words& words);
  bool SetUpWindow(Words& words);
  bool StartQp();

  // Steps (runner.cc).
  bool Receive(Words& words);
  bool DeliverBurst();
  bool Post(Words& words);
  bool PostField(const std::string& key, Words& words, testing::SendWr& wr,
                 std::string& from, uint32_t& len);
  bool PostRecv(Words& words);
  bool Modify(Words& words);
  bool Alter(Words& words);
  bool SetMemory(Words& words);
  bool Break(Words& words);
  bool Transmit(Words& words);
  bool AdvanceTo(Time target);
  // Transmits and takes completions.
  bool Pump();
  bool TransmitOnce(uint32_t slots);

  // Checks (runner_expect.cc).
  bool ExpectSent(Words& words);
  bool Expect(Words& words);
  bool ExpectCompletion(Words& words);
  bool ExpectMemory(Words& words);
  bool ExpectDeadline(Words& words);
  bool ExpectCounter(Words& words);
  bool ExpectVerdicts(Words& words);
  bool ExpectState(Words& words);
  bool ExpectEvent(Words& words);
  bool ExpectNothingLeft();

  bool ResolvePlace(const std::string& word, Place& out) const;
  bool TakePlace(Words& words, Place& out);
  bool TakeNumber(Words& words, const std::string& what, uint64_t& out);

  QpConfig config_;
  testing::EndpointOptions options_;
  QpState start_state_ = QpState::kRts;
  testing::FakeHost host_;
  std::map<std::string, Region> regions_;
  size_t memory_used_ = 0;
  std::unique_ptr<testing::Endpoint> end_;  // from the first step on

  Time now_ = Time::FromNs(1000000);
  int line_ = 0;
  bool hold_ = false;  // transmit only when the script says so
  uint32_t slots_ = 32;
  uint64_t next_id_ = 1;
  std::vector<testing::Packet> burst_;
  uint64_t marked_ = 0;              // bit n: packet n of the burst
  std::vector<RxVerdict> verdicts_;  // of the last burst
  std::deque<Sent> sent_;
  std::deque<testing::Completion> completions_;
  std::string error_;
  std::string trace_;
};

}  // namespace urnic::scripts
