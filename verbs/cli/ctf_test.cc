// babeltrace2 reads what this writes in tests/e2e. Here: its parts.

#include "verbs/cli/ctf.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace urnic {
namespace {

Facts Event(const std::string& line) { return ParseFacts(line).value(); }

constexpr char kPacket[] =
    "trace\tlink:urnic0/1\tlqpn=17\tat:now\tcomponent:receive\tlevel=8\t"
    "point:packet-received\tpsn=5\tpid=4711\t-\tat-ns=258";

TEST(CtfTest, DescribesEachKindOfEventOnce) {
  CtfTrace trace;
  trace.Add(Event(kPacket));
  trace.Add(Event(kPacket));
  trace.Add(
      Event("trace\tcomponent:verbs\tpoint:verb-ends\tpid=4711\tat-ns=3"));
  const std::string text = trace.Metadata();
  EXPECT_TRUE(text.starts_with("/* CTF 1.8 */"));
  EXPECT_NE(text.find("name = \"receive:packet-received\""), std::string::npos);
  EXPECT_EQ(text.find("packet-received"), text.rfind("packet-received"));
  EXPECT_NE(text.find("uint64_t _psn;"), std::string::npos);
  EXPECT_NE(text.find("string _link;"), std::string::npos);
  EXPECT_NE(text.find("name = \"verbs:verb-ends\""), std::string::npos);
  EXPECT_EQ(text.find("_at"), std::string::npos);
}

TEST(CtfTest, WritesNumbersInLittleEndianAndTextsWithATerminator) {
  CtfTrace trace;
  trace.Add(
      Event("trace\tlink:ab\tcomponent:verbs\tpoint:verb-ends\t"
            "errno=22\tpid=1\t-\tat-ns=258"));
  using namespace std::string_view_literals;
  EXPECT_EQ(trace.streams().at("1"),
            "\xc1\x1f\xfc\xc1\0\0\0\0"
            "\0\0\0\0"
            "\2\1\0\0\0\0\0\0"
            "ab\0"
            "\x16\0\0\0\0\0\0\0"
            "\1\0\0\0\0\0\0\0"sv);
}

TEST(CtfTest, EachProgramHasAStream) {
  CtfTrace trace;
  trace.Add(Event(kPacket));
  trace.Add(Event("trace\tcomponent:verbs\tpoint:verb-ends\tpid=12\tat-ns=3"));
  EXPECT_EQ(trace.streams().size(), 2u);
}

TEST(CtfTest, LeavesOutWhatIsNoEvent) {
  CtfTrace trace;
  trace.Add(Event("trace\tcomponent:verbs\tpoint:verb-ends\tpid=12"));
  trace.Add(Event("qp\tlqpn=1"));
  EXPECT_TRUE(trace.streams().empty());
}

}  // namespace
}  // namespace urnic
