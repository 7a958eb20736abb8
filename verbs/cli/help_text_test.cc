#include "verbs/cli/help_text.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

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

TEST(HelpEntryTest, ExplanationsAreAligned) {
  EXPECT_EQ(HelpEntry("--short N", "Explained"),
            "  --short N           Explained\n");
  EXPECT_EQ(HelpEntry("--much-longer-option TEXT", "Explained, too"),
            "  --much-longer-option TEXT\n"
            "                      Explained, too\n");
}

}  // namespace
}  // namespace urnic
