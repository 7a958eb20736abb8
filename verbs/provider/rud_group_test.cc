// Groups of RUD windows, by the direct verbs. Source and members are on one
// device, so each packet also goes to the device itself.

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "verbs/provider/testing/rud_window.h"
#include "verbs/provider/testing/shown.h"

namespace urnic {
namespace {

constexpr uint32_t kGroupKey = 0x67;
constexpr uint32_t kBytes = 5000;
constexpr uint16_t kStride = 1024;
constexpr uint32_t kPackets = 5;

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
    command.packets = (1 << kPackets) - 1;
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

// Two windows write to one group; a member has a context and a place for each.
class RudGroupOfTwoSources : public RudGroup {
 protected:
  static constexpr uint32_t kPlaces[] = {300, 8600};  // in the member's memory

  struct Source {
    RudPollingWindow* window = nullptr;
    const std::vector<uint8_t>* bytes = nullptr;
    uint64_t pvo = 0;
    uint32_t group = 0;  // its peer
    uint64_t local_context = 0;
    uint64_t context = 0;  // of the member
    uint32_t at_member = 0;
    uint32_t key = 0;
  };

  RudGroupOfTwoSources() {
    Member& second = members_[1];
    std::iota(second.bytes.begin(), second.bytes.end(), uint8_t{7});
    second.window->AddPeer(*member_.window);
    sources_[0] = {.window = &*source_,
                   .bytes = &from_,
                   .pvo = from_pvo_,
                   .at_member = member_.source};
    sources_[1] = {.window = &*second.window,
                   .bytes = &second.bytes,
                   .pvo = second.pvo,
                   .at_member = member_.window->AddPeer(*second.window)};
    for (Source& source : sources_) {
      source.key = kGroupKey + source.at_member;
      source.context = member_.window->Acquire();
      source.local_context = source.window->Acquire();
      urnic_dv_peer_attr attr = GroupPeer();
      attr.key = source.key;
      EXPECT_EQ(urnic_dv_add_peer(source.window->qp(), &attr, &source.group),
                0);
      EXPECT_EQ(Join(source), 0);
    }
  }

  int Join(const Source& source) {
    urnic_dv_group_attr attr = AttrOf(member_);
    attr.peer = source.at_member;
    attr.key = source.key;
    attr.contexts = &source.context;
    attr.pvo = member_.pvo + kPlaces[&source - sources_] - 200;
    attr.bytes = 200 + kBytes;
    return urnic_dv_join_group(member_.window->qp(), &attr);
  }
  int Leave(const Source& source) {
    return urnic_dv_leave_group(member_.window->qp(), &group_,
                                source.at_member);
  }
  void Post(const Source& source, uint64_t transfer) {
    urnic_rud_send command = Command(source.group);
    command.notify = URNIC_RUD_NOTIFY_SOURCE | URNIC_RUD_NOTIFY_TARGET;
    command.local_context = source.local_context;
    command.local_pvo = source.pvo;
    command.tid = transfer << 8;
    source.window->Post(command);
  }
  // The member takes what the source sends, and has it where it belongs.
  void ExpectHeard(const Source& source, uint64_t transfer) {
    const uint32_t place = kPlaces[&source - sources_];
    std::fill_n(member_.bytes.begin() + place, kBytes, uint8_t{0});
    std::vector<uint8_t> wanted = member_.bytes;
    std::copy_n(source.bytes->begin(), kBytes, wanted.begin() + place);
    Post(source, transfer);
    const auto done = source.window->Poll();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->type, URNIC_RUD_GOT_COMPLETION);
    const auto told = member_.window->Poll();
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->type, URNIC_RUD_GOT_TRANSFER);
    EXPECT_EQ(told->context, source.context);
    EXPECT_EQ(told->peer, source.at_member);
    EXPECT_EQ(told->tid, transfer << 8);
    EXPECT_EQ(member_.bytes, wanted);
  }
  // Nobody takes the source's packets. Returns how many come to windows all the
  // same, since the RNIC has members for others.
  uint64_t CountUnheard(const Source& source, uint64_t transfer) {
    const uint64_t before = Counter("rud-unknown-peer");
    const std::vector<uint8_t> wanted = member_.bytes;
    RudPollingWindow& window = *source.window;
    const uint32_t place =
        window.at().send_indices->producer % RudPollingWindow::kEntries;
    Post(source, transfer);
    EXPECT_TRUE(window.RunUntil([&] {
      return LoadShared(window.at().sends[place].status) == URNIC_RUD_SENT;
    }));
    // What comes behind them.
    urnic_rud_send packet = {};
    packet.opcode = URNIC_RUD_PACKET;
    packet.peer = member_.at_source;
    packet.window = member_.window->at().number;
    source_->Post(packet);
    const auto got = member_.window->Poll();
    EXPECT_TRUE(got.has_value() && got->type == URNIC_RUD_GOT_PACKET);
    EXPECT_EQ(window.TakeType(), 0);
    EXPECT_EQ(member_.bytes, wanted);
    return Counter("rud-unknown-peer") - before;
  }
  static uint64_t Counter(const std::string& name) {
    const std::string shown = Shown("stat");
    const size_t at = shown.find(name + "=");
    return at == std::string::npos
               ? 0
               : std::stoull(shown.substr(at + name.size() + 1));
  }

  Member& member_ = members_[0];
  Source sources_[2];
};

TEST_F(RudGroupOfTwoSources, TheMemberHasAPlaceForEach) {
  for (uint64_t transfer = 1; transfer <= 3; ++transfer) {
    for (const Source& source : sources_) ExpectHeard(source, transfer);
  }
}

TEST_F(RudGroupOfTwoSources, WhoLeavesOneStillHearsTheOther) {
  for (const Source& source : sources_) ExpectHeard(source, 1);
  ASSERT_EQ(Leave(sources_[0]), 0);
  EXPECT_EQ(Leave(sources_[0]), EINVAL);
  EXPECT_EQ(CountUnheard(sources_[0], 2), kPackets);
  ExpectHeard(sources_[1], 2);
  // It comes back, and the other one is removed.
  ASSERT_EQ(Join(sources_[0]), 0);
  ASSERT_EQ(urnic_dv_remove_peer(member_.window->qp(), sources_[1].at_member),
            0);
  ExpectHeard(sources_[0], 3);
  EXPECT_EQ(CountUnheard(sources_[1], 3), kPackets);
}

TEST_F(RudGroupOfTwoSources, TheRnicLeavesTheGroupWithTheLast) {
  ASSERT_EQ(Leave(sources_[1]), 0);
  EXPECT_EQ(CountUnheard(sources_[1], 1), kPackets);
  ASSERT_EQ(Leave(sources_[0]), 0);
  for (const Source& source : sources_) EXPECT_EQ(CountUnheard(source, 2), 0u);
  ASSERT_EQ(Join(sources_[1]), 0);
  ExpectHeard(sources_[1], 3);
}

// The window has one place for a source, by whatever address it knows it.
TEST_F(RudGroup, ASourceAtTwoAddressesOfOursIsHeardOnce) {
  constexpr uint8_t kGidIndexes[] = {1, kGidIndexIpv6};  // link-local; another
  Member& member = members_[0];
  urnic_dv_group_attr group = AttrOf(member);
  int result = 0;
  for (const uint8_t index : kGidIndexes) {
    urnic_dv_peer_attr attr = {};
    attr.ah = ToOurselves(device_);
    EXPECT_EQ(ibv_query_gid(device_, 1, kGidIndexIpv6, &attr.ah.grh.dgid), 0);
    attr.ah.grh.sgid_index = index;
    attr.window = source_->at().number;
    attr.key = source_->at().key;
    ASSERT_EQ(urnic_dv_add_peer(member.window->qp(), &attr, &group.peer), 0);
    EXPECT_EQ(urnic_dv_join_group(member.window->qp(), &group), result);
    result = EBUSY;
  }
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
