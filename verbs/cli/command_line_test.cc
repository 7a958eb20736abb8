#include "verbs/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace urnic {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Words = std::vector<std::string>;

struct Values {
  bool flag = false;
  int number = 5;
  uint32_t count = 6;
  double seconds = 7;
  std::string text = "before";
  std::optional<std::string> wish;
  Words list;
  Words names;
  std::vector<OptionWord> ports;
  Words arguments;
  bool given = false;
};

std::string OddMistake(const std::string& text) {
  return text.size() % 2 != 0 ? "" : "\"" + text + "\" is not odd";
}

class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() {
    Command& do_it = line_.AddSubcommand("do", "Do it", [this] {
      chosen_ = "do";
      return 42;
    });
    do_it.AddOption("-f,--flag", &v_.flag, "A flag");
    do_it.AddOption("--number", &v_.number, "A number",
                    {.type = "N", .range = {0, 9}});
    do_it.AddOption("--count", &v_.count, "A count", {.range = {1, 0xffffff}});
    do_it.AddOption("--seconds", &v_.seconds, "A time", {.range = {0.5, 8}});
    do_it.AddOption("--text", &v_.text, "A text",
                    {.environment = "URNIC_TEST_TEXT", .given = &v_.given});
    do_it.AddOption("--wish", &v_.wish, "A wish",
                    {.excludes = "--flag,--text"});
    do_it.AddOption("--list", &v_.list, "A list", {.mistake = OddMistake});
    do_it.AddOption("--names", &v_.names, "Names", {.several = true});
    do_it.AddOption("--port", &v_.ports, "A port", {.type = "DEV"});
    do_it.AddOption("--addr", &v_.ports, "An address", {.type = "IP"});
    do_it.AddOption("ARGUMENTS", &v_.arguments, "All else");

    Command& change = line_.AddSubcommand("change", "Change it", [this] {
      chosen_ = "change";
      return kExitOk;
    });
    change.SetUsage("test change [add|del]");
    change.AddOption("--process", &v_.text, "A process");
    for (const char* const verb : {"add", "del"}) {
      Command& command = change.AddSubcommand(verb, "Change", [this, verb] {
        chosen_ = verb;
        return kExitOk;
      });
      command.AddOption("VERB", &v_.wish, "A verb",
                        {.one_of = "start,stop", .required = true});
      command.AddOption("WORD", &v_.arguments, "A word", {.most_words = 1});
    }

    Command& start = line_.AddSubcommand("start", "Start it", [this] {
      chosen_ = "start";
      return kExitOk;
    });
    start.AddOption("--port", &v_.ports, "A port");
    start.AddOption("--mtu", &v_.count, "An MTU");
    start.AddOption("--flag", &v_.flag, "A flag");
    start.TakeProgram(&program_);
  }

  int Run(const Words& words) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int exit_status = line_.Run(words);
    out_ = testing::internal::GetCapturedStdout();
    said_ = testing::internal::GetCapturedStderr();
    return exit_status;
  }

  // What is said on stderr.
  std::string MistakeIn(const Words& words) {
    EXPECT_EQ(Run(words), kExitUsage);
    EXPECT_EQ(out_, "");
    return said_;
  }

  CommandLine line_{"test", "A test"};
  Values v_;
  Words program_;
  std::string chosen_ = "none";
  std::string out_;
  std::string said_;
};

TEST_F(CommandLineTest, ValuesGoWhereTheyBelong) {
  EXPECT_EQ(Run({"do", "-f", "--number", "9", "--count=0x10", "--seconds",
                 "0.5", "--text", "", "--list", "a", "first", "--list=b",
                 "second", "--names", "c", "d"}),
            42);
  EXPECT_EQ(said_, "");
  EXPECT_EQ(chosen_, "do");
  EXPECT_TRUE(v_.flag);
  EXPECT_EQ(v_.number, 9);
  EXPECT_EQ(v_.count, 16u);
  EXPECT_EQ(v_.seconds, 0.5);
  EXPECT_EQ(v_.text, "");
  EXPECT_TRUE(v_.given);
  EXPECT_FALSE(v_.wish);
  EXPECT_THAT(v_.list, ElementsAre("a", "b"));
  EXPECT_THAT(v_.names, ElementsAre("c", "d"));
  EXPECT_THAT(v_.arguments, ElementsAre("first", "second"));
}

TEST_F(CommandLineTest, WhatIsNotGivenKeepsItsValue) {
  EXPECT_EQ(Run({"do", "--wish", "x"}), 42);
  EXPECT_EQ(v_.wish, "x");
  EXPECT_EQ(v_.number, 5);
  EXPECT_EQ(v_.text, "before");
  EXPECT_FALSE(v_.given);
  EXPECT_THAT(v_.ports, IsEmpty());
}

TEST_F(CommandLineTest, TheEnvironmentHasWhatIsNotGiven) {
  setenv("URNIC_TEST_TEXT", "there", 1);
  EXPECT_EQ(Run({"do"}), 42);
  unsetenv("URNIC_TEST_TEXT");
  EXPECT_EQ(v_.text, "there");
}

TEST_F(CommandLineTest, OptionsThatShareAListKeepTheirOrder) {
  EXPECT_EQ(Run({"do", "--port", "a", "--addr=1", "--port=b", "--addr", "2",
                 "--addr", "3"}),
            42);
  Words order;
  for (const OptionWord& word : v_.ports)
    order.push_back(word.option + " " + word.value);
  EXPECT_THAT(order, ElementsAre("--port a", "--addr 1", "--port b", "--addr 2",
                                 "--addr 3"));
}

TEST_F(CommandLineTest, ASubcommandMayHaveSubcommands) {
  EXPECT_EQ(Run({"change", "--process", "7"}), kExitOk);
  EXPECT_EQ(chosen_, "change");
  EXPECT_EQ(v_.text, "7");
}

TEST_F(CommandLineTest, OptionsOfACommandMayFollowItsSubcommand) {
  EXPECT_EQ(Run({"change", "del", "stop", "x", "--process", "8"}), kExitOk);
  EXPECT_EQ(chosen_, "del");
  EXPECT_EQ(v_.wish, "stop");
  EXPECT_EQ(v_.text, "8");
}

struct Case {
  Words words;
  const char* said;
};

TEST_F(CommandLineTest, MistakesNameTheSubcommandAndTheWord) {
  const Case cases[] = {
      {{},
       "test: no subcommand; the subcommands are do, change, start; for "
       "help: test help\n"},
      {{"chnage"},
       "test: unknown subcommand \"chnage\": did you mean "
       "\"change\"?\n"},
      {{"do", "--nubmer", "3"},
       "test do: unknown option \"--nubmer\": did you mean \"--number\"?\n"},
      {{"do", "--xyzzy"},
       "test do: unknown option \"--xyzzy\"; for help: test do --help\n"},
      {{"do", "--number"},
       "test do: --number needs a value: N:INT in [0 - 9]; for help: test do "
       "--help\n"},
      {{"do", "--number", "10"},
       "test do: --number: Value 10 not in range 0 to 9; for help: test do "
       "--help\n"},
      {{"do", "--count", "-1"},
       "test do: --count: Value -1 not in range 1 to 16777215; for help: test "
       "do --help\n"},
      {{"do", "--text", "a", "--text", "b"},
       "test do: --text is given more than once; for help: test do --help\n"},
      {{"do", "--list", "ab"},
       "test do: --list: \"ab\" is not odd; for help: test do --help\n"},
      {{"do", "--wish", "x", "-f"},
       "test do: --flag excludes --wish; for help: test do --help\n"},
      {{"change", "add"},
       "test change: VERB is required; for help: test change --help\n"},
      {{"change", "add", "begin"},
       "test change: VERB: begin not in {start,stop}; for help: test change "
       "--help\n"},
      {{"change", "add", "stop", "x", "y"},
       "test change: unexpected argument \"y\"; for help: test change "
       "--help\n"},
      {{"change", "ad"},
       "test change: unexpected argument \"ad\": did you mean \"add\"?\n"},
      {{"start", "--port"},
       "test start: --port needs a value: TEXT; for help: test start --help\n"},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(MistakeIn(each.words), each.said);
    EXPECT_EQ(chosen_, "none");
  }
}

TEST_F(CommandLineTest, HelpIsAskedForInTwoWays) {
  line_.SetFooter("The last line");
  EXPECT_EQ(Run({"--help"}), kExitOk);
  const std::string help = out_;
  EXPECT_THAT(help, HasSubstr("A test\nUsage: test [OPTIONS] SUBCOMMAND\n"));
  EXPECT_THAT(help, HasSubstr("\n  do                  Do it\n"));
  EXPECT_THAT(help, EndsWith("\nThe last line\n"));
  EXPECT_EQ(Run({"help"}), kExitOk);
  EXPECT_EQ(out_, help);
  EXPECT_EQ(chosen_, "none");
}

TEST_F(CommandLineTest, HelpNamesTheValues) {
  EXPECT_EQ(Run({"help", "do"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("Usage: test do [OPTIONS] [ARGUMENTS...]\n"));
  EXPECT_THAT(out_, HasSubstr("\n  ARGUMENTS           All else\n"));
  EXPECT_THAT(out_, HasSubstr("\n  -f,--flag           A flag\n"));
  EXPECT_THAT(out_, HasSubstr("\n  --port DEV          A port\n"));
  EXPECT_THAT(out_, HasSubstr("\n  --number N:INT in [0 - 9]\n"
                              "                      A number\n"));
}

TEST_F(CommandLineTest, UsageCanBeGiven) {
  EXPECT_EQ(Run({"change", "add", "--help"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("\nUsage: test change [add|del]\n"));
  EXPECT_THAT(out_, Not(HasSubstr("[OPTIONS]")));
}

TEST_F(CommandLineTest, TheVersionIsPrinted) {
  line_.SetVersion("test 1.2");
  EXPECT_EQ(Run({"--version"}), kExitOk);
  EXPECT_EQ(out_, "test 1.2\n");
}

TEST_F(CommandLineTest, AProgramBeginsAtTheFirstWord) {
  EXPECT_EQ(Run({"start", "--flag", "--port", "loop", "--mtu=1500", "prog",
                 "--port", "5"}),
            kExitOk);
  EXPECT_THAT(program_, ElementsAre("prog", "--port", "5"));
  EXPECT_EQ(v_.ports.size(), 1u);
  EXPECT_EQ(v_.count, 1500u);
}

TEST_F(CommandLineTest, AProgramBeginsAfterTheDashes) {
  EXPECT_EQ(Run({"start", "--port", "loop", "--", "-x", "--"}), kExitOk);
  EXPECT_THAT(program_, ElementsAre("-x", "--"));
}

TEST_F(CommandLineTest, OtherSubcommandsHaveNoProgram) {
  EXPECT_EQ(Run({"do", "--", "x"}), 42);
  EXPECT_THAT(program_, IsEmpty());
  EXPECT_THAT(v_.arguments, ElementsAre("x"));
}

TEST(CommandLineOfCli11Test, HasItsWordsAndExitStatuses) {
  int number = 3;
  CommandLine line("test", "A test", CommandLine::Words::kOfCli11);
  line.AddSubcommand("do", "Do it", [] { return 5; })
      .AddOption("--number", &number, "A number",
                 {.range = {1, 9}, .shows_default = true});
  testing::internal::CaptureStdout();
  EXPECT_EQ(line.Run({"do", "--help"}), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              HasSubstr("--number INT:INT in [1 - 9]=3"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(line.Run({"do", "--number", "0"}), 105);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "--number: Value 0 not in range 1 to 9\n"
            "Run with --help for more information.\n");
  EXPECT_EQ(line.Run({"do", "--number", "4"}), 5);
  EXPECT_EQ(number, 4);
}

}  // namespace
}  // namespace urnic
