// Two RNICs with a window each, connected by a pair of rings, and an RNIC that
// talks to itself. transport/rud/window_test.cc tests the rules of the
// protocol.

#include "datapath/engine/rud_window.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "tests/support/rud_node.h"

namespace urnic {
namespace {

constexpr uint32_t kSlotBytes = testing::RudNode::kSlotBytes;

// A node, and what its program does.
class Node : public testing::RudNode {
 public:
  using RudNode::RudNode;

  uint32_t AddPeer(const net::Path& path, Node& other) {
    return RudNode::AddPeer(path, other.window().qpn(), other.key());
  }
  // Replaces a peer by another one at the same address.
  void ChangePeer(uint32_t& number, uint32_t peer, uint32_t key) {
    Engine::ControlScope scope(engine());
    const net::Path path = window().FindPeer(number)->path;
    ASSERT_TRUE(window().RemovePeer(number));
    number = window().AddPeer(path, peer, key);
  }
  void Post(const urnic_rud_send& command) {
    urnic_queue_indices& indices = rings().send_indices;
    rings().sends[indices.producer % rings().sends.size()] = command;
    std::atomic_ref(indices.producer).fetch_add(1, std::memory_order_release);
    engine().Doorbell(window());
  }
  uint32_t StatusOf(uint32_t index) { return rings().sends[index].status; }
  std::optional<urnic_rud_receive> Poll() {
    uint32_t& consumer = rings().receive_indices.consumer;
    urnic_rud_receive& entry =
        rings().receives[consumer % rings().receives.size()];
    if (entry.type == 0) return std::nullopt;
    const urnic_rud_receive got = entry;
    entry.type = 0;
    ++consumer;
    return got;
  }
  const uint8_t* SlotOf(uint32_t index) {
    return &rings().receive_slots[size_t{index} * kSlotBytes];
  }
};

class RudWindowTest : public ::testing::Test {
 protected:
  RudWindowTest() {
    to_b_ = a_.AddPeer(testing::FindPath(a_, b_), b_);
    to_a_ = b_.AddPeer(testing::FindPath(b_, a_), a_);
    std::iota(a_.memory(), a_.memory() + 65536, uint8_t{3});
  }

  urnic_rud_send Command(uint8_t opcode, uint32_t bytes) {
    urnic_rud_send command = {};
    command.opcode = opcode;
    command.notify = URNIC_RUD_NOTIFY_SOURCE | URNIC_RUD_NOTIFY_TARGET;
    command.peer = to_b_;
    command.window = b_.window().qpn();
    command.local_context = a_.Acquire()->value();
    command.context = b_.Acquire()->value();
    command.tid = 1 << 8;
    command.local_pvo = a_.pvo().value;
    command.remote_pvo = b_.pvo().value;
    command.bytes = bytes;
    command.stride = kSlotBytes;
    command.packets = wire::RudAllPackets(wire::RudPackets(bytes, kSlotBytes));
    return command;
  }
  void Run() {
    for (int i = 0; i < 5; ++i) {
      a_.engine().Progress();
      b_.engine().Progress();
    }
  }

  Node a_{{.dev = "ring:rud:a", .ip = 0x0a010001}};
  Node b_{{.dev = "ring:rud:b", .ip = 0x0a010002}};
  uint32_t to_b_ = 0;
  uint32_t to_a_ = 0;
};

TEST_F(RudWindowTest, AWriteArrivesAndBothEndsAreTold) {
  for (const uint32_t bytes : {0u, 8u, 1024u, 1025u, 16384u}) {
    std::memset(b_.memory(), 0, 32768);
    a_.Post(Command(URNIC_RUD_WRITE, bytes));
    Run();
    EXPECT_EQ(std::memcmp(a_.memory(), b_.memory(), bytes), 0) << bytes;
    const auto done = a_.Poll();
    ASSERT_TRUE(done.has_value()) << bytes;
    EXPECT_EQ(done->type, URNIC_RUD_GOT_COMPLETION);
    const auto told = b_.Poll();
    ASSERT_TRUE(told.has_value()) << bytes;
    EXPECT_EQ(told->type, URNIC_RUD_GOT_TRANSFER);
    EXPECT_EQ(told->total, bytes);
  }
}

TEST_F(RudWindowTest, AReadBringsTheBytes) {
  std::iota(b_.memory(), b_.memory() + 65536, uint8_t{90});
  a_.Post(Command(URNIC_RUD_READ, 10000));
  Run();
  EXPECT_EQ(std::memcmp(a_.memory(), b_.memory(), 10000), 0);
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_TRANSFER);
  EXPECT_EQ(b_.Poll()->type, URNIC_RUD_GOT_COMPLETION);
}

// A tells B to send to a window at A's address: to A itself.
TEST_F(RudWindowTest, AThirdWindowIsFoundByItsAddressAndNumber) {
  std::iota(b_.memory(), b_.memory() + 65536, uint8_t{90});
  urnic_rud_send command = Command(URNIC_RUD_THIRD_READ, 5000);
  command.notify = URNIC_RUD_NOTIFY_THIRD | URNIC_RUD_NOTIFY_TARGET;
  command.target_peer = a_.AddPeer(testing::FindPath(a_, a_), a_);
  command.target_window = a_.window().qpn() ^ 0x10;
  command.target_context = a_.Acquire()->value();
  a_.Post(command);
  Run();
  EXPECT_EQ(b_.count(RxVerdict::kRudUnknownThird), 1u);
  command.target_window = a_.window().qpn();
  command.tid = 2 << 8;
  a_.Post(command);
  Run();
  EXPECT_EQ(std::memcmp(a_.memory(), b_.memory(), 5000), 0);
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_TRANSFER);
  EXPECT_EQ(a_.Poll()->type, URNIC_RUD_GOT_COMPLETION);
}

TEST_F(RudWindowTest, APacketForAThirdWindowThatIsNoPeerIsNotSent) {
  urnic_rud_send command = Command(URNIC_RUD_THIRD_READ, 8);
  command.notify = URNIC_RUD_NOTIFY_THIRD;
  command.target_peer = to_b_ + 1;
  command.target_window = 1;
  a_.Post(command);
  Run();
  EXPECT_EQ(b_.count(RxVerdict::kRudUnknownThird), 0u);
  EXPECT_EQ(a_.engine().counters().tx_source_gone, 1u);
}

TEST_F(RudWindowTest, APacketArrivesInTheFifo) {
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_PACKET;
  command.flags = URNIC_RUD_INLINE_DATA;
  command.peer = to_b_;
  command.window = b_.window().qpn();
  command.bytes = 5;
  std::memcpy(command.data, "hello", 5);
  std::memcpy(command.tag, "sixteen bytes ..", 16);
  a_.Post(command);
  Run();
  const auto got = b_.Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->bytes, 5u);
  EXPECT_EQ(std::memcmp(got->tag, command.tag, 16), 0);
  EXPECT_EQ(std::memcmp(b_.SlotOf(0), "hello", 5), 0);
  EXPECT_EQ(got->source_window, a_.window().qpn());
}

TEST_F(RudWindowTest, AStrangerIsNotHeard) {
  {
    Engine::ControlScope scope(b_.engine());
    EXPECT_TRUE(b_.window().RemovePeer(to_a_));
    EXPECT_FALSE(b_.window().RemovePeer(to_a_));
  }
  a_.Post(Command(URNIC_RUD_WRITE, 8));
  Run();
  EXPECT_EQ(b_.count(RxVerdict::kRudUnknownPeer), 1u);
  EXPECT_FALSE(b_.Poll().has_value());
  EXPECT_FALSE(a_.Poll().has_value());
}

TEST_F(RudWindowTest, ThePeerThatComesNextHasAnotherNumber) {
  Engine::ControlScope scope(b_.engine());
  const net::Path path = b_.window().FindPeer(to_a_)->path;
  ASSERT_TRUE(b_.window().RemovePeer(to_a_));
  const uint32_t next = b_.window().AddPeer(path, a_.window().qpn(), 1);
  EXPECT_NE(next, to_a_);
  EXPECT_EQ(b_.window().FindPeer(to_a_), nullptr);
  EXPECT_NE(b_.window().FindPeer(next), nullptr);
}

TEST_F(RudWindowTest, TheKeyOfAPacketIsThatOfThePeer) {
  a_.ChangePeer(to_b_, b_.window().qpn(), 1);
  a_.Post(Command(URNIC_RUD_WRITE, 8));
  Run();
  EXPECT_EQ(b_.count(RxVerdict::kRudWrongKey), 1u);
}

TEST_F(RudWindowTest, AnotherWindowOfTheHostIsNoPeer) {
  b_.ChangePeer(to_a_, a_.window().qpn() ^ 0x10, 1);
  a_.Post(Command(URNIC_RUD_WRITE, 8));
  Run();
  EXPECT_EQ(b_.count(RxVerdict::kRudUnknownPeer), 1u);
}

TEST_F(RudWindowTest, AnUnknownWindowIsCounted) {
  urnic_rud_send command = Command(URNIC_RUD_WRITE, 8);
  command.window ^= 0x10;
  a_.Post(command);
  Run();
  EXPECT_EQ(b_.count(RxVerdict::kRudUnknownWindow), 1u);
}

TEST_F(RudWindowTest, AWindowInErrDropsPacketsAndFlushesCommands) {
  {
    Engine::ControlScope scope(b_.engine());
    b_.engine().qps().Modify(b_.window(), QpState::kErr, {});
  }
  a_.Post(Command(URNIC_RUD_WRITE, 8));
  Run();
  EXPECT_EQ(b_.count(RxVerdict::kRudWindowFailed), 1u);
  b_.Post(urnic_rud_send{});
  Run();
  EXPECT_EQ(b_.StatusOf(0), URNIC_RUD_FLUSHED);
}

// The network delivers a packet to a group to all ports.
TEST_F(RudWindowTest, AGroupIsHeardByItsMembersOnly) {
  const wire::Gid group = wire::Gid::FromIpv4(0xef010203);
  const auto path = a_.nic().ResolvePath(
      {.local = a_.gid(), .remote = group, .udp_src_port = 50000},
      Duration::Milliseconds(1));
  ASSERT_TRUE(path.ok());
  urnic_rud_send command = Command(URNIC_RUD_WRITE, 3000);
  command.peer = a_.RudNode::AddPeer(*path, 0, 0x67);
  command.window = 0;
  const rud::ContextId context = rud::ContextId::Of(command.context);
  command.context = 0;
  command.remote_pvo = 0;
  command.notify = URNIC_RUD_NOTIFY_TARGET;
  a_.Post(command);
  Run();
  EXPECT_EQ(b_.count(RxVerdict::kNoMember), 3u);
  {
    Engine::ControlScope scope(b_.engine());
    ASSERT_TRUE(
        b_.network().JoinGroup(b_.window(), group, b_.engine().Now()).ok());
  }
  command.tid += 1;
  a_.Post(command);
  Run();
  EXPECT_EQ(b_.count(RxVerdict::kRudUnknownPeer), 3u) << "a member for others";
  {
    Engine::ControlScope scope(b_.engine());
    ASSERT_TRUE(
        b_.window().JoinGroup(group, to_a_, {0x67, {context}, b_.pvo(), 4096}));
  }
  command.tid += 1;
  a_.Post(command);
  Run();
  EXPECT_EQ(std::memcmp(a_.memory(), b_.memory(), 3000), 0);
  EXPECT_EQ(b_.Poll()->type, URNIC_RUD_GOT_TRANSFER);
}

TEST_F(RudWindowTest, AGroupHasAPlaceForEachSource) {
  const wire::Gid group = wire::Gid::FromIpv4(0xef010203);
  const uint32_t a = a_.window().qpn();
  const uint32_t other = a ^ 0x10;  // a window of the same host
  Engine::ControlScope scope(b_.engine());
  RudWindow& window = b_.window();
  const net::Path path = window.FindPeer(to_a_)->path;
  const uint32_t to_other = window.AddPeer(path, other, 1);
  ASSERT_TRUE(window.JoinGroup(group, to_a_, {0x67, {}, b_.pvo(), 4096}));
  ASSERT_TRUE(window.JoinGroup(group, to_other, {0x68, {}, b_.pvo(), 8}));
  // The key of the membership; 0: there is none.
  const auto key_for = [&](uint32_t source) {
    const RudGroup* const found = window.FindGroup(group, a_.gid(), source);
    return found == nullptr ? 0 : found->as.key;
  };
  EXPECT_EQ(key_for(a), 0x67u);
  EXPECT_EQ(key_for(other), 0x68u);
  EXPECT_EQ(key_for(a ^ 0x20), 0u);
  EXPECT_TRUE(window.LeaveGroup(group, to_a_));
  EXPECT_FALSE(window.LeaveGroup(group, to_a_));
  EXPECT_EQ(key_for(a), 0u);
  EXPECT_EQ(key_for(other), 0x68u);
  EXPECT_TRUE(window.IsInGroup(group));
  EXPECT_TRUE(window.RemovePeer(to_other));
  EXPECT_EQ(key_for(other), 0u);
  EXPECT_FALSE(window.IsInGroup(group));
}

// Document C: large packets of FIFO mode, in IP fragments.
class RudFragments : public ::testing::Test {
 protected:
  static constexpr uint32_t kLong = 40000;

  RudFragments() {
    to_b_ = a_.AddPeer(testing::FindPath(a_, b_), b_);
    b_.AddPeer(testing::FindPath(b_, a_), a_);
  }
  urnic_rud_send Packet(uint32_t bytes) {
    const uint32_t place = a_.rings().send_indices.producer % 64;
    uint8_t* const slot = &a_.rings().send_slots[size_t{place} * kLong];
    std::iota(slot, slot + bytes, static_cast<uint8_t>(bytes));
    urnic_rud_send command = {};
    command.opcode = URNIC_RUD_PACKET;
    command.peer = to_b_;
    command.window = b_.window().qpn();
    command.bytes = bytes;
    return command;
  }
  void Run() {
    for (int i = 0; i < 200; ++i) {
      a_.engine().Progress();
      b_.engine().Progress();
    }
  }
  void ExpectAll(uint32_t bytes, uint32_t place) {
    const auto got = b_.Poll();
    ASSERT_TRUE(got.has_value()) << bytes;
    EXPECT_EQ(got->type, URNIC_RUD_GOT_PACKET);
    ASSERT_EQ(got->bytes, bytes);
    std::vector<uint8_t> wanted(bytes);
    std::iota(wanted.begin(), wanted.end(), static_cast<uint8_t>(bytes));
    EXPECT_EQ(std::memcmp(&b_.rings().receive_slots[size_t{place} * kLong],
                          wanted.data(), bytes),
              0);
  }

  Node a_{{.dev = "ring:rudf:a", .ip = 0x0a010001, .slot_bytes = kLong}};
  Node b_{{.dev = "ring:rudf:b", .ip = 0x0a010002, .slot_bytes = kLong}};
  uint32_t to_b_ = 0;
};

TEST_F(RudFragments, APacketLongerThanTheLinksArrives) {
  uint32_t place = 0;
  for (const uint32_t bytes : {1024u, 1025u, 9000u, 20000u, kLong}) {
    a_.Post(Packet(bytes));
    Run();
    ExpectAll(bytes, place++);
  }
  EXPECT_GE(b_.count(RxVerdict::kRudFragments), 1u);
}

// Short packets are sent behind long ones, as long as there are frames for
// them.
TEST_F(RudFragments, LongAndShortPacketsShareABurst) {
  constexpr uint32_t kSizes[] = {20000, 8, 20000, 100, 1000, 9000, 1};
  for (const uint32_t bytes : kSizes) a_.Post(Packet(bytes));
  Run();
  uint32_t place = 0;
  for (const uint32_t bytes : kSizes) ExpectAll(bytes, place++);
}

// More frames than the port's queue has room for, and more than the reassembly
// accepts from one sender. Short packets still arrive.
TEST_F(RudFragments, ManyLongPacketsLeaveRoomForOthers) {
  for (int i = 0; i < 60; ++i) a_.Post(Packet(i % 2 == 0 ? kLong : 8));
  Run();
  uint64_t arrived[2] = {};  // long, short
  while (const auto got = b_.Poll()) ++arrived[got->bytes == 8 ? 1 : 0];
  EXPECT_GE(arrived[0], 1u);
  EXPECT_EQ(arrived[1] + a_.engine().counters().tx_fragments_lost, 30u);
}

TEST_F(RudFragments, WithoutAWindowFragmentsAreDropped) {
  {
    Engine::ControlScope scope(b_.engine());
    b_.engine().qps().Modify(b_.window(), QpState::kErr, {});
  }
  a_.Post(Packet(20000));
  Run();
  EXPECT_EQ(b_.count(RxVerdict::kRudWindowFailed), 1u);
}

class RudLoop : public ::testing::Test {
 protected:
  Node node_{{.dev = "loop", .ip = 0x0a020001}};
};

TEST_F(RudLoop, AWindowWritesToItself) {
  const net::Path path = testing::FindPath(node_, node_);
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_WRITE;
  command.notify = URNIC_RUD_NOTIFY_SOURCE;
  command.peer = node_.AddPeer(path, node_);
  command.window = node_.window().qpn();
  command.local_context = node_.Acquire()->value();
  command.context = node_.Acquire()->value();
  command.tid = 1 << 8;
  command.local_pvo = node_.pvo().value;
  command.remote_pvo = node_.pvo().value + 4096;
  command.bytes = 2000;
  command.stride = 512;
  command.packets = 0xf;
  std::iota(node_.memory(), node_.memory() + 2000, uint8_t{1});
  node_.Post(command);
  for (int i = 0; i < 10; ++i) node_.engine().Progress();
  EXPECT_EQ(std::memcmp(node_.memory(), node_.memory() + 4096, 2000), 0);
  EXPECT_EQ(node_.Poll()->type, URNIC_RUD_GOT_COMPLETION);
}

}  // namespace
}  // namespace urnic
