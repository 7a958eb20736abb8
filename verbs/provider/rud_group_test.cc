// Groups of RUD windows, by the direct verbs. Source and members are on one
// device, so each packet also goes to the device itself.

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "verbs/provider/testing/rud_window.h"

namespace urnic {
namespace {

constexpr uint32_t kGroupKey = 0x67;
constexpr uint32_t kBytes = 5000;

ibv_gid GroupGid(const char* ipv4) {
  ibv_gid gid = {};
  gid.raw[10] = gid.raw[11] = 0xff;
  EXPECT_EQ(inet_pton(AF_INET, ipv4, &gid.raw[12]), 1);
  return gid;
}

class RudGroup : public ::testing::Test {
 protected:
  struct Member {
    std::optional<RudPollingWindow> window;
    std::vector<uint8_t> bytes = std::vector<uint8_t>(16384);
    uint64_t pvo = 0;
    uint64_t context = 0;
    uint32_t source = 0;  // its peer
    uint32_t at_source = 0;
  };

  RudGroup() : pd_(ibv_alloc_pd(device_)), from_(8192) {
    source_.emplace(pd_);
    std::iota(from_.begin(), from_.end(), uint8_t{1});
    EXPECT_EQ(urnic_dv_register(device_, kRudJob, from_.data(), from_.size(),
                                kRudRights, &from_pvo_),
              0);
    for (Member& member : members_) {
      member.window.emplace(pd_);
      member.source = member.window->AddPeer(*source_);
      member.at_source = source_->AddPeer(*member.window);
      member.context = member.window->Acquire();
      EXPECT_EQ(urnic_dv_register(device_, kRudJob, member.bytes.data(),
                                  member.bytes.size(), kRudRights, &member.pvo),
                0);
    }
  }
  ~RudGroup() override {
    EXPECT_EQ(urnic_dv_deregister(device_, kRudJob, from_pvo_), 0);
    for (Member& member : members_) {
      EXPECT_EQ(urnic_dv_deregister(device_, kRudJob, member.pvo), 0);
      member.window.reset();
    }
    source_.reset();
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
  }

  urnic_dv_group_attr AttrOf(const Member& member) const {
    urnic_dv_group_attr attr = {};
    attr.group = group_;
    attr.peer = member.source;
    attr.key = kGroupKey;
    attr.count = 1;
    attr.contexts = &member.context;
    attr.pvo = member.pvo + 100;
    attr.bytes = 8192;
    return attr;
  }
  int Join(const Member& member) {
    const urnic_dv_group_attr attr = AttrOf(member);
    return urnic_dv_join_group(member.window->qp(), &attr);
  }
  urnic_dv_peer_attr GroupPeer() const {
    urnic_dv_peer_attr attr = {};
    attr.ah = ToOurselves(device_);
    attr.ah.grh.dgid = group_;
    attr.key = kGroupKey;
    return attr;
  }
  // A write to the group; with what number it is a peer.
  urnic_rud_send Command(uint32_t to) {
    constexpr uint16_t kStride = 1024;
    urnic_rud_send command = {};
    command.opcode = URNIC_RUD_WRITE;
    command.notify = URNIC_RUD_NOTIFY_SOURCE;
    command.peer = to;
    command.local_context = source_->Acquire();
    command.tid = 1 << 8;
    command.local_pvo = from_pvo_;
    command.remote_pvo = 200;
    command.bytes = kBytes;
    command.stride = kStride;
    command.packets = (1 << 5) - 1;
    return command;
  }
  bool HasAll(const Member& member) const {
    return std::equal(from_.begin(), from_.begin() + kBytes,
                      member.bytes.begin() + 300) &&
           member.bytes[299] == 0 && member.bytes[300 + kBytes] == 0;
  }

  OpenDevice device_;
  ibv_pd* pd_;
  std::vector<uint8_t> from_;
  uint64_t from_pvo_ = 0;
  std::optional<RudPollingWindow> source_;
  Member members_[3];
  const ibv_gid group_ = GroupGid("239.1.2.3");
};

TEST_F(RudGroup, AWriteArrivesAtThoseWhoHaveJoined) {
  ASSERT_EQ(Join(members_[0]), 0);
  ASSERT_EQ(Join(members_[1]), 0);
  const urnic_dv_peer_attr attr = GroupPeer();
  uint32_t to = 0;
  ASSERT_EQ(urnic_dv_add_peer(source_->qp(), &attr, &to), 0);
  urnic_rud_send command = Command(to);
  source_->Post(command);
  std::vector<uint32_t> told;
  for (int i = 0; i < 2; ++i) {
    const auto got = source_->Poll();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->type, URNIC_RUD_GOT_COMPLETION);
    told.push_back(got->peer);
  }
  std::sort(told.begin(), told.end());
  std::vector<uint32_t> both = {members_[0].at_source, members_[1].at_source};
  std::sort(both.begin(), both.end());
  EXPECT_EQ(told, both);
  EXPECT_TRUE(HasAll(members_[0]));
  EXPECT_TRUE(HasAll(members_[1]));
  EXPECT_EQ(members_[2].bytes, std::vector<uint8_t>(16384));

  // One leaves.
  ASSERT_EQ(urnic_dv_leave_group(members_[0].window->qp(), &group_,
                                 members_[0].source),
            0);
  command.tid = 2 << 8;
  source_->Post(command);
  const auto got = source_->Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->peer, members_[1].at_source);
  EXPECT_EQ(source_->TakeType(), 0);
}

TEST_F(RudGroup, APeerThatIsRemovedIsNotHeardInGroups) {
  ASSERT_EQ(Join(members_[0]), 0);
  ASSERT_EQ(Join(members_[1]), 0);
  ASSERT_EQ(urnic_dv_remove_peer(members_[0].window->qp(), members_[0].source),
            0);
  EXPECT_EQ(urnic_dv_leave_group(members_[0].window->qp(), &group_,
                                 members_[0].source),
            EINVAL);
  const urnic_dv_peer_attr attr = GroupPeer();
  uint32_t to = 0;
  ASSERT_EQ(urnic_dv_add_peer(source_->qp(), &attr, &to), 0);
  source_->Post(Command(to));
  EXPECT_EQ(source_->Poll()->peer, members_[1].at_source);
  EXPECT_EQ(source_->TakeType(), 0);
  EXPECT_FALSE(HasAll(members_[0]));
}

TEST_F(RudGroup, WhatIsRefused) {
  Member& member = members_[0];
  ASSERT_EQ(Join(member), 0);
  EXPECT_EQ(Join(member), EBUSY) << "it has joined";
  const auto join = [&](auto&& change) {
    urnic_dv_group_attr attr = AttrOf(members_[1]);
    change(attr);
    return urnic_dv_join_group(members_[1].window->qp(), &attr);
  };
  EXPECT_EQ(join([](auto& attr) { attr.comp_mask = 1; }), EOPNOTSUPP);
  EXPECT_EQ(join([](auto& attr) { attr.group = GroupGid("10.0.0.1"); }), EINVAL)
      << "not a group";
  EXPECT_EQ(join([](auto& attr) { attr.peer ^= 1; }), EINVAL) << "no such peer";
  EXPECT_EQ(join([&](auto& attr) { attr.contexts = &member.context; }), EINVAL)
      << "of another window";
  EXPECT_EQ(join([](auto& attr) { attr.contexts = nullptr; }), EINVAL);
  EXPECT_EQ(join([](auto& attr) { attr.count = UINT32_MAX; }), ENOMEM);
  EXPECT_EQ(urnic_dv_leave_group(members_[1].window->qp(), &group_,
                                 members_[1].source),
            EINVAL)
      << "nothing of that has joined";
  urnic_dv_peer_attr attr = GroupPeer();
  attr.window = 7;
  uint32_t to = 0;
  EXPECT_EQ(urnic_dv_add_peer(source_->qp(), &attr, &to), EINVAL);
  attr.ah = ToOurselves(device_);
  attr.window = 0;
  EXPECT_EQ(urnic_dv_add_peer(source_->qp(), &attr, &to), EINVAL);
}

TEST_F(RudGroup, ThereIsALimitOfGroups) {
  Member& member = members_[0];
  urnic_dv_group_attr attr = AttrOf(member);
  int joined = 0;
  for (; joined <= 1000; ++joined) {
    attr.group.raw[14] = static_cast<uint8_t>(joined >> 8);
    attr.group.raw[15] = static_cast<uint8_t>(joined);
    const int error = urnic_dv_join_group(member.window->qp(), &attr);
    if (error == ENOMEM) break;
    ASSERT_EQ(error, 0);
  }
  EXPECT_EQ(joined, 256);
}

}  // namespace
}  // namespace urnic
