#include "transport/iwarp/options/options_spec.h"

#include <gtest/gtest.h>

#include <string>

namespace urnic::iwarp {
namespace {

TEST(OptionsTest, NothingGivenMeansTheDefaults) {
  const auto options = ParseOptions("");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(*options, Options());
  EXPECT_TRUE(options->crc);
  EXPECT_FALSE(options->markers);
  EXPECT_EQ(options->mpa_revision, 2);
  EXPECT_EQ(options->rtr, Rtr::kAny);
  EXPECT_EQ(options->ecn, Ecn::kOff);
  EXPECT_EQ(options->timeout_seconds, 0u);
}

TEST(OptionsTest, EachKeySetsItsOwnMember) {
  EXPECT_EQ(*ParseOptions("crc=off"), (Options{.crc = false}));
  EXPECT_EQ(*ParseOptions("crc=on"), Options());
  EXPECT_EQ(*ParseOptions("markers=on"), (Options{.markers = true}));
  EXPECT_EQ(*ParseOptions("mpa=1"), (Options{.mpa_revision = 1}));
  EXPECT_EQ(*ParseOptions("rtr=zero"), (Options{.rtr = Rtr::kZero}));
  EXPECT_EQ(*ParseOptions("rtr=write"), (Options{.rtr = Rtr::kWrite}));
  EXPECT_EQ(*ParseOptions("rtr=read"), (Options{.rtr = Rtr::kRead}));
  EXPECT_EQ(*ParseOptions("rtr=none"), (Options{.rtr = Rtr::kNone}));
  EXPECT_EQ(*ParseOptions("ecn=classic"), (Options{.ecn = Ecn::kClassic}));
  EXPECT_EQ(*ParseOptions("ecn=dctcp"), (Options{.ecn = Ecn::kDctcp}));
  EXPECT_EQ(*ParseOptions("timeout=off"), Options());
  EXPECT_EQ(*ParseOptions("timeout=1"), (Options{.timeout_seconds = 1}));
  EXPECT_EQ(*ParseOptions("timeout=86400"),
            (Options{.timeout_seconds = 86400}));
  EXPECT_EQ(*ParseOptions("ecn=dctcp,mpa=1,rtr=none,markers=on,crc=off"),
            (Options{.crc = false,
                     .markers = true,
                     .mpa_revision = 1,
                     .rtr = Rtr::kNone,
                     .ecn = Ecn::kDctcp}));
}

TEST(OptionsTest, MistakesNameTheItemAndTheChoices) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"crc",
       "iwarp: \"crc\" is not an option; write crc=, markers=, mpa=, "
       "rtr=, ecn=, timeout="},
      {"crc=off,", "iwarp: \"\" is not an option; write crc=,"},
      {"speed=1", "iwarp: \"speed=1\" is not an option; write crc=,"},
      {"crc=no", "iwarp: \"crc=no\" is not a choice; write crc=on or off"},
      {"markers=", "\"markers=\" is not a choice; write markers=on or off"},
      {"mpa=3", "iwarp: \"mpa=3\" is not a choice; write mpa=1 or 2"},
      {"rtr=send", "write rtr=any, zero, write, read or none"},
      {"ecn=on", "write ecn=off, classic or dctcp"},
      {"mpa=0", "\"mpa=0\" is not a choice"},
      {"timeout=0", "write timeout=off, or 1 to 86400 seconds"},
      {"timeout=86401", "\"timeout=86401\" is not a choice"},
      {"timeout=5s", "\"timeout=5s\" is not a choice"},
      {"crc=on,mpa=2,crc=off", "iwarp: \"crc=off\" is given twice; write"},
      {"rtr=read,mpa=1", "revision 1 of MPA has no RTR; write mpa=2, or no"},
  };
  for (const auto& c : cases) {
    const auto options = ParseOptions(c.text);
    ASSERT_FALSE(options.ok()) << c.text;
    EXPECT_NE(std::string(options.status().message()).find(c.message),
              std::string::npos)
        << options.status();
  }
}

}  // namespace
}  // namespace urnic::iwarp
