#include "datapath/engine/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

namespace urnic {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kFirstGroup = 0xe1000000;  // 225.0.0.0

class GroupsTest : public ::testing::Test {
 protected:
  // The table does not access the object.
  RoceQp& qp(size_t i) { return reinterpret_cast<RoceQp&>(storage_[i]); }
  static wire::Gid GroupNo(uint32_t i) {
    return wire::Gid::FromIpv4(kFirstGroup + i);
  }
  std::vector<RoceQp*> MembersOf(const wire::Gid& gid) const {
    const std::span<RoceQp* const> members = groups_.MembersOf(gid);
    return {members.begin(), members.end()};
  }

  char storage_[Groups::kMaxMembers + 1];
  Groups groups_{/*salt=*/42};
};

TEST_F(GroupsTest, MembersAreListedInTheOrderOfTheirJoins) {
  EXPECT_TRUE(*groups_.Join(qp(1), GroupNo(0))) << "the first";
  EXPECT_FALSE(*groups_.Join(qp(0), GroupNo(0)));
  EXPECT_FALSE(*groups_.Join(qp(1), GroupNo(0))) << "once more";
  EXPECT_TRUE(*groups_.Join(qp(2), GroupNo(1)));
  EXPECT_THAT(MembersOf(GroupNo(0)), ElementsAre(&qp(1), &qp(0)));
  EXPECT_THAT(MembersOf(GroupNo(1)), ElementsAre(&qp(2)));
  EXPECT_THAT(MembersOf(GroupNo(2)), ElementsAre());
}

TEST_F(GroupsTest, AGroupEndsWithItsLastMember) {
  ASSERT_TRUE(groups_.Join(qp(0), GroupNo(0)).ok());
  ASSERT_TRUE(groups_.Join(qp(1), GroupNo(0)).ok());
  EXPECT_EQ(groups_.Leave(qp(2), GroupNo(0)), Groups::Left::kNotMember);
  EXPECT_EQ(groups_.Leave(qp(0), GroupNo(1)), Groups::Left::kNotMember);
  EXPECT_EQ(groups_.Leave(qp(0), GroupNo(0)), Groups::Left::kOthersStay);
  EXPECT_EQ(groups_.Leave(qp(1), GroupNo(0)), Groups::Left::kGroupEmpty);
  EXPECT_THAT(MembersOf(GroupNo(0)), ElementsAre());
  EXPECT_TRUE(*groups_.Join(qp(0), GroupNo(0))) << "the first again";
}

TEST_F(GroupsTest, TheGroupsOfAQueuePairAreFound) {
  for (uint32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(groups_.Join(qp(i % 2), GroupNo(i)).ok());
  }
  ASSERT_TRUE(groups_.Join(qp(0), GroupNo(3)).ok());
  EXPECT_THAT(groups_.AllOf(qp(0)), ::testing::UnorderedElementsAre(
                                        GroupNo(0), GroupNo(2), GroupNo(3)));
  EXPECT_THAT(groups_.AllOf(qp(2)), ElementsAre());
}

TEST_F(GroupsTest, OnlyGroupsCanBeJoined) {
  EXPECT_EQ(
      groups_.Join(qp(0), wire::Gid::FromIpv4(0x0a000001)).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST_F(GroupsTest, ThereIsALimitOfMembers) {
  for (size_t i = 0; i < Groups::kMaxMembers; ++i) {
    ASSERT_TRUE(groups_.Join(qp(i), GroupNo(0)).ok()) << i;
  }
  EXPECT_EQ(groups_.Join(qp(Groups::kMaxMembers), GroupNo(0)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(*groups_.Join(qp(0), GroupNo(0))) << "is a member";
}

TEST_F(GroupsTest, ThereIsALimitOfGroups) {
  for (uint32_t i = 0; i < Groups::kMaxGroups; ++i) {
    ASSERT_TRUE(*groups_.Join(qp(0), GroupNo(i))) << i;
  }
  EXPECT_EQ(groups_.Join(qp(0), GroupNo(Groups::kMaxGroups)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(*groups_.Join(qp(1), GroupNo(7))) << "of a group that is there";
  EXPECT_EQ(groups_.AllOf(qp(0)).size(), Groups::kMaxGroups);
}

}  // namespace
}  // namespace urnic
