#include "verbs/cli/snapshot_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/support/unreliable_end.h"
#include "transport/ud/image.h"

namespace urnic {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string HexOfImage() {
  QpConfig config;
  config.mtu = 256;
  testing::UnreliableEnd<ud::Qp> end(0x33, config);
  const auto image = end.Image();
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(image.data()), image.size()});
}

Facts Decoded(const std::string& hex) {
  std::vector<Facts> objects = {
      {"snapshot", {{"object", "image"}, {"image", hex}}}};
  DecodeImages(objects);
  return objects.front();
}

TEST(SnapshotViewTest, AnImageBecomesItsSummaryAndItsMembers) {
  const Facts object = Decoded(HexOfImage());
  EXPECT_EQ(object.Find("image"), nullptr);
  EXPECT_THAT(*object.Find("summary"), StartsWith("QP 0x000033 UD  RTS"));
  EXPECT_FALSE(object.facts[1].is_detail);
  const Fact& member = object.facts.back();
  EXPECT_TRUE(member.is_detail);
  EXPECT_EQ(*object.Find("qp.state"), "RTS");
  EXPECT_EQ(object.Find("problem"), nullptr);
}

TEST(SnapshotViewTest, AnImageThatCannotBeReadIsToldAndKept) {
  const std::string whole = HexOfImage();
  for (const std::string& hex :
       {std::string("123"), std::string("zz"), std::string(), whole.substr(2),
        whole.substr(0, whole.size() - 2)}) {
    const Facts object = Decoded(hex);
    EXPECT_EQ(object.Find("summary"), nullptr) << hex;
    ASSERT_NE(object.Find("problem"), nullptr) << hex;
    EXPECT_NE(*object.Find("problem"), "") << hex;
    EXPECT_EQ(*object.Find("image"), hex);
    EXPECT_TRUE(object.facts[1].is_detail);
  }
}

TEST(SnapshotViewTest, OtherObjectsStayAsTheyAre) {
  std::vector<Facts> objects = {{"snapshot", {{"object", "cq"}, {"cqn", "1"}}}};
  DecodeImages(objects);
  EXPECT_EQ(objects.front().facts.size(), 2u);
}

}  // namespace
}  // namespace urnic
