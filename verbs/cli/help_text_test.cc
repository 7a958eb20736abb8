#include "verbs/cli/help_formatter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace urnic {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(WrapLinesTest, BreaksALongLineAtItsBlanks) {
  const std::string ten = "123456789 ";
  const std::string line = ten + ten + ten + ten + ten + ten + ten + "12345678";
  EXPECT_EQ(WrapLines(line + "90", 0), line + "90") << "80 columns fit";
  EXPECT_EQ(WrapLines(line + "90x", 0),
            ten + ten + ten + ten + ten + ten + "123456789\n1234567890x");
  EXPECT_EQ(WrapLines(line, 2), line) << "80 columns fit";
  EXPECT_EQ(WrapLines(line, 3),
            ten + ten + ten + ten + ten + ten + "123456789\n   12345678");
}

TEST(WrapLinesTest, KeepsShortLinesAndLongWords) {
  EXPECT_EQ(WrapLines("first\n  urnic  run   --port loop\n", 0),
            "first\n  urnic  run   --port loop\n");
  EXPECT_EQ(WrapLines("one\ntwo", 4), "one\n    two");
  EXPECT_EQ(WrapLines("", 4), "");
  const std::string word(100, 'x');
  EXPECT_EQ(WrapLines(word, 0), word);
  EXPECT_EQ(WrapLines("a " + word + " b", 2), "a\n  " + word + "\n  b");
}

TEST(HelpFormatterTest, ExplanationsAreAlignedAndUsageCanBeGiven) {
  CLI::App app("A test", "test");
  app.formatter(std::make_shared<HelpFormatter>());
  std::string value;
  app.add_option("--short", value, "Explained")->type_name("N");
  app.add_option("--much-longer-option", value, "Explained, too");
  app.add_option("DEVICE", value, "A device");
  CLI::App* sub = app.add_subcommand("sub", "Do it");
  EXPECT_THAT(app.help(), HasSubstr("Usage: test [OPTIONS] [DEVICE]"));
  EXPECT_THAT(app.help(), HasSubstr("\n  --short N           Explained\n"));
  EXPECT_THAT(app.help(), HasSubstr("\n  DEVICE              A device\n"));
  EXPECT_THAT(app.help(), HasSubstr("\n  sub                 Do it\n"));
  EXPECT_THAT(app.help(), HasSubstr("\n  --much-longer-option TEXT\n"
                                    "                      Explained, too\n"));
  sub->formatter(std::make_shared<HelpFormatter>("test sub [N]"));
  EXPECT_THAT(sub->help(), HasSubstr("\nUsage: test sub [N]\n"));
  EXPECT_THAT(sub->help(), Not(HasSubstr("[OPTIONS]")));
}

}  // namespace
}  // namespace urnic
