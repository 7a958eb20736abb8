// Windows of RUD through urnic_dv.h: what calls accept and refuse, and that
// two windows of a device move memory and packets. The rules of the protocol
// are in transport/rud/window_test.cc.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "verbs/provider/testing/rud_window.h"
#include "verbs/provider/testing/shown.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

using Window = RudPollingWindow;

class Rud : public ::testing::Test {
 protected:
  Rud() : pd_(ibv_alloc_pd(device_)) {
    a_.emplace(pd_);
    b_.emplace(pd_);
    to_b_ = a_->AddPeer(*b_);
    b_->AddPeer(*a_);
    std::iota(from_.begin(), from_.end(), uint8_t{1});
    EXPECT_EQ(Register(from_.data(), from_.size(), &from_pvo_), 0);
    EXPECT_EQ(Register(to_.data(), to_.size(), &to_pvo_), 0);
  }
  ~Rud() override {
    EXPECT_EQ(urnic_dv_deregister(device_, kRudJob, from_pvo_), 0);
    EXPECT_EQ(urnic_dv_deregister(device_, kRudJob, to_pvo_), 0);
    a_.reset();
    b_.reset();
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
  }
  int Register(void* at, size_t bytes, uint64_t* pvo, uint32_t job = kRudJob,
               unsigned rights = kRudRights) {
    return urnic_dv_register(device_, job, at, bytes, rights, pvo);
  }
  // From a to b.
  urnic_rud_send Command(uint8_t opcode, uint32_t bytes) {
    constexpr uint16_t kStride = 1024;
    urnic_rud_send command = {};
    command.opcode = opcode;
    command.notify = URNIC_RUD_NOTIFY_SOURCE;
    command.peer = to_b_;
    command.window = b_->at().number;
    command.context = b_->Acquire();
    command.local_context = a_->Acquire();
    command.tid = 1 << 8;
    command.local_pvo = from_pvo_;
    command.remote_pvo = to_pvo_;
    command.bytes = bytes;
    command.stride = kStride;
    command.packets = (uint64_t{1} << (bytes + kStride - 1) / kStride) - 1;
    return command;
  }

  OpenDevice device_;
  ibv_pd* pd_;
  std::optional<Window> a_;
  std::optional<Window> b_;
  uint32_t to_b_ = 0;
  std::vector<uint8_t> from_ = std::vector<uint8_t>(8192);
  std::vector<uint8_t> to_ = std::vector<uint8_t>(8192);
  uint64_t from_pvo_ = 0;
  uint64_t to_pvo_ = 0;
};

TEST_F(Rud, AWindowWritesToAnother) {
  a_->Post(Command(URNIC_RUD_WRITE, 5000));
  const auto got = a_->Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->type, URNIC_RUD_GOT_COMPLETION);
  EXPECT_EQ(got->tid, 1u << 8);
  EXPECT_EQ(a_->FirstStatus(), URNIC_RUD_SENT);
  to_.resize(5000);
  from_.resize(5000);
  EXPECT_EQ(to_, from_);
}

// A program that does not know all fields of a command leaves them alone. The
// memory may have been that of a window with other commands.
TEST_F(Rud, ANewRingHasNothingOfAnEarlierWindow) {
  for (int i = 0; i < 3; ++i) {
    Window window(pd_);
    std::vector<urnic_rud_send> none(window.at().send_entries);
    const size_t bytes = none.size() * sizeof(urnic_rud_send);
    EXPECT_EQ(std::memcmp(window.at().sends, none.data(), bytes), 0);
    std::memset(static_cast<void*>(window.at().sends), 0xff, bytes);
  }
}

TEST_F(Rud, AWindowReadsFromAnother) {
  std::iota(to_.begin(), to_.end(), uint8_t{100});
  urnic_rud_send command = Command(URNIC_RUD_READ, 5000);
  command.notify = URNIC_RUD_NOTIFY_TARGET;
  a_->Post(command);
  const auto got = a_->Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->type, URNIC_RUD_GOT_TRANSFER);
  EXPECT_EQ(std::memcmp(from_.data(), to_.data(), 5000), 0);
}

// A tells B to send to C, and is told when it has arrived.
TEST_F(Rud, AWindowTellsAnotherToSendToAThird) {
  Window c(pd_);
  const uint32_t to_c = a_->AddPeer(c);
  b_->AddPeer(c);
  c.AddPeer(*a_);
  c.AddPeer(*b_);
  urnic_rud_send command = Command(URNIC_RUD_THIRD_READ, 5000);
  command.notify = URNIC_RUD_NOTIFY_THIRD | URNIC_RUD_NOTIFY_TARGET;
  command.target_peer = to_c;
  command.target_window = c.at().number;
  command.target_context = c.Acquire();
  command.remote_pvo = from_pvo_;  // at B
  command.local_pvo = to_pvo_;     // at C
  a_->Post(command);
  const auto got = a_->Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->type, URNIC_RUD_GOT_COMPLETION);
  EXPECT_EQ(got->source_window, c.at().number);
  EXPECT_EQ(std::memcmp(from_.data(), to_.data(), 5000), 0);
  const auto told = c.Poll();
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->type, URNIC_RUD_GOT_TRANSFER);
  EXPECT_EQ(told->source_window, b_->at().number);
}

TEST_F(Rud, AThirdWindowMustBeAPeer) {
  Window c(pd_);
  urnic_rud_send command = Command(URNIC_RUD_THIRD_READ, 8);
  command.notify = URNIC_RUD_NOTIFY_THIRD;
  command.target_peer = a_->AddPeer(c);
  command.target_window = c.at().number;
  command.target_context = c.Acquire();
  command.remote_pvo = from_pvo_;
  command.local_pvo = to_pvo_;
  a_->Post(command);
  // B does not know C.
  EXPECT_EQ(a_->FirstStatus(), URNIC_RUD_SENT);
  int turns = 100;
  a_->RunUntil([&] { return --turns == 0; });
  EXPECT_NE(Shown("stat").find("rud-unknown-third"), std::string::npos)
      << Shown("stat");
  EXPECT_EQ(to_[0], 0);
}

// The packet is posted at once, and leaves when all of the set is complete.
TEST_F(Rud, ASignalFollowsASetOfWrites) {
  constexpr uint8_t kCounter = 3;
  urnic_rud_send signal = {};
  signal.opcode = URNIC_RUD_PACKET;
  signal.flags = URNIC_RUD_INLINE_DATA;
  signal.peer = to_b_;
  signal.window = b_->at().number;
  signal.bytes = 5;
  std::strcpy(reinterpret_cast<char*>(signal.data), "done");
  signal.condition = kCounter;
  signal.value = 4;
  a_->Post(signal);
  EXPECT_EQ(a_->FirstStatus(), URNIC_RUD_HELD);
  EXPECT_NE(Shown("qp").find("held=1"), std::string::npos) << Shown("qp");
  for (uint32_t i = 0; i < 4; ++i) {
    urnic_rud_send write = Command(URNIC_RUD_WRITE, 1024);
    write.flags = URNIC_RUD_COUNT_ONLY;
    write.counter = kCounter;
    write.local_pvo += i * 1024;
    write.remote_pvo += i * 1024;
    a_->Post(write);
  }
  const auto got = b_->Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_STREQ(got->payload, "done");
  EXPECT_EQ(std::memcmp(from_.data(), to_.data(), 4096), 0);
  urnic_rud_send ask = {};
  ask.opcode = URNIC_RUD_ASK_COUNTER;
  ask.counter = kCounter;
  a_->Post(ask);
  const auto counter = a_->Poll();
  ASSERT_TRUE(counter.has_value());
  EXPECT_EQ(counter->type, URNIC_RUD_GOT_COUNTER);
  EXPECT_EQ(counter->value, 4u);
  EXPECT_EQ(counter->held, 0u);
}

// Document C's table of windows.
TEST_F(Rud, WhatAFifoHoldsAndWhatItHasDiscardedIsShown) {
  constexpr uint32_t kTooMany = 5;
  urnic_rud_send packet = {};
  packet.opcode = URNIC_RUD_PACKET;
  packet.flags = URNIC_RUD_INLINE_DATA;
  packet.peer = to_b_;
  packet.window = b_->at().number;
  const uint32_t entries = b_->at().receive_entries;
  for (uint32_t i = 0; i < entries + kTooMany; ++i) a_->Post(packet);
  const auto shows = [](uint32_t unread, uint32_t discarded) {
    return Shown("qp").find("receive-unread=" + std::to_string(unread) +
                            "\treceive-discarded=" +
                            std::to_string(discarded)) != std::string::npos;
  };
  EXPECT_TRUE(a_->RunUntil([&] { return shows(entries, kTooMany); }))
      << Shown("qp");
  ASSERT_TRUE(b_->Poll().has_value());
  EXPECT_TRUE(shows(entries - 1, kTooMany)) << Shown("qp");
}

TEST_F(Rud, APacketGoesToTheReceiveFifo) {
  urnic_rud_send command = {};
  command.opcode = URNIC_RUD_PACKET;
  command.peer = to_b_;
  command.window = b_->at().number;
  command.bytes = 6;
  command.tag[3] = 77;
  a_->Post(command, "hello");
  const auto got = b_->Poll();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->type, URNIC_RUD_GOT_PACKET);
  EXPECT_EQ(got->tag[3], 77);
  EXPECT_STREQ(got->payload, "hello");
}

TEST_F(Rud, AWindowIsAQueuePairOfTypeDriver) {
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(ibv_query_qp(a_->qp(), &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(init.qp_type, IBV_QPT_DRIVER);
  EXPECT_EQ(a_->at().gid_index, kGidIndexIpv4);
  const std::string shown = Shown("qp");
  EXPECT_NE(shown.find("RUD"), std::string::npos) << shown;
  EXPECT_NE(shown.find("job=9"), std::string::npos) << shown;
  // It takes no work requests.
  ibv_send_wr send = {};
  ibv_send_wr* bad_send = nullptr;
  EXPECT_EQ(ibv_post_send(a_->qp(), &send, &bad_send), EINVAL);
  ibv_recv_wr receive = {};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(a_->qp(), &receive, &bad_receive), EINVAL);
}

TEST_F(Rud, ErrClosesAWindow) {
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RESET;
  EXPECT_EQ(ibv_modify_qp(a_->qp(), &attr, IBV_QP_STATE), EINVAL);
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(a_->qp(), &attr, IBV_QP_STATE), 0);
  a_->Post(Command(URNIC_RUD_WRITE, 8));
  EXPECT_EQ(a_->FirstStatus(), URNIC_RUD_FLUSHED);
}

TEST_F(Rud, APvoOfNoRegistrationFailsTheWindow) {
  urnic_rud_send command = Command(URNIC_RUD_WRITE, 8);
  command.local_pvo ^= uint64_t{1} << 63;
  a_->Post(command);
  EXPECT_EQ(a_->FirstStatus(), URNIC_RUD_BAD_PVO);
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(device_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, a_->qp());
  ibv_ack_async_event(&event);
}

TEST_F(Rud, DeregisteredMemoryIsNotTouched) {
  std::vector<uint8_t> more(4096, 0x11);
  uint64_t pvo = 0;
  ASSERT_EQ(Register(more.data(), more.size(), &pvo), 0);
  ASSERT_EQ(urnic_dv_deregister(device_, kRudJob, pvo), 0);
  EXPECT_EQ(urnic_dv_deregister(device_, kRudJob, pvo), EINVAL);
  urnic_rud_send command = Command(URNIC_RUD_WRITE, 64);
  command.remote_pvo = pvo;
  a_->Post(command);
  // Document C: the window that a wrong key was aimed at fails.
  EXPECT_TRUE(b_->RunUntil([&] { return b_->State() == IBV_QPS_ERR; }));
  EXPECT_EQ(more, std::vector<uint8_t>(4096, 0x11));
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(device_, &event), 0);
  ibv_ack_async_event(&event);
}

TEST_F(Rud, RevokedMemoryIsNotAccessedAndNobodyWaits) {
  uint64_t pvos[2] = {};
  uint64_t snapshot = 0;
  ASSERT_EQ(Register(to_.data(), 8, &pvos[0], kRudJob + 1), 0);
  ASSERT_EQ(Register(to_.data(), 8, &pvos[1], kRudJob + 1), 0);
  EXPECT_EQ(urnic_dv_revoke(device_, kRudJob + 1, pvos[0]), 0);
  EXPECT_EQ(urnic_dv_revoke(device_, kRudJob + 1, pvos[0]), EINVAL);
  EXPECT_EQ(urnic_dv_revoke_job(device_, kRudJob + 1), 0);
  EXPECT_EQ(urnic_dv_deregister(device_, kRudJob + 1, pvos[1]), EINVAL);
  EXPECT_TRUE(a_->RunUntil([&] {
    EXPECT_EQ(urnic_dv_read_snapshot(device_, &snapshot), 0);
    return snapshot == 0;
  }));
}

TEST_F(Rud, MemoryThatCannotBeRegistered) {
  uint64_t pvo = 0;
  EXPECT_EQ(Register(to_.data(), 8, &pvo, 0), EINVAL) << "no job";
  EXPECT_EQ(Register(to_.data(), 0, &pvo), EINVAL) << "no bytes";
  EXPECT_EQ(Register(to_.data(), 8, &pvo, kRudJob, 1 << 3), EINVAL) << "rights";
  EXPECT_EQ(Register(reinterpret_cast<void*>(4096), 8, &pvo), EFAULT);
  void* const constant =
      mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(Register(constant, 8, &pvo), EFAULT) << "cannot be written";
  ASSERT_EQ(Register(constant, 8, &pvo, kRudJob, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(urnic_dv_deregister(device_, kRudJob + 1, pvo), EINVAL) << "job";
  EXPECT_EQ(urnic_dv_deregister(device_, kRudJob, pvo + 1), EINVAL) << "middle";
  EXPECT_EQ(urnic_dv_deregister(device_, kRudJob, pvo), 0);
  munmap(constant, 4096);
}

// As many jobs, one after another, as there are tables, and more.
TEST_F(Rud, ATableIsFreeWhenItsJobHasNothingLeft) {
  for (uint32_t job = 100; job < 200; ++job) {
    uint64_t pvo = 0;
    ASSERT_EQ(Register(to_.data(), 8, &pvo, job), 0) << job;
    ASSERT_EQ(urnic_dv_deregister(device_, job, pvo), 0);
  }
}

TEST_F(Rud, Peers) {
  uint32_t peer = 0;
  urnic_dv_peer_attr attr = {};
  attr.ah = ToOurselves(device_);
  attr.window = b_->at().number;
  EXPECT_EQ(urnic_dv_add_peer(a_->qp(), &attr, &peer), EBUSY) << "is one";
  EXPECT_EQ(urnic_dv_remove_peer(a_->qp(), to_b_), 0);
  EXPECT_EQ(urnic_dv_remove_peer(a_->qp(), to_b_), EINVAL);
  EXPECT_EQ(urnic_dv_add_peer(a_->qp(), &attr, &peer), 0);
  EXPECT_NE(peer, to_b_) << "answers to the former are not for this one";
  attr.comp_mask = 1;
  EXPECT_EQ(urnic_dv_add_peer(a_->qp(), &attr, &peer), EOPNOTSUPP);
  attr.comp_mask = 0;
  attr.ah.grh.sgid_index = kGidIndexIpv4 - 1;
  EXPECT_EQ(urnic_dv_add_peer(a_->qp(), &attr, &peer), EINVAL) << "RoCE v1";
  attr.ah.is_global = 0;
  EXPECT_EQ(urnic_dv_add_peer(a_->qp(), &attr, &peer), EINVAL) << "no GID";
}

TEST_F(Rud, ThePoolHas100000Contexts) {
  std::vector<uint64_t> all(100'000);
  EXPECT_EQ(urnic_dv_acquire_contexts(a_->qp(), 100'000, all.data()), 0);
  uint64_t one = 0;
  EXPECT_EQ(urnic_dv_acquire_contexts(b_->qp(), 1, &one), ENOMEM);
  EXPECT_EQ(urnic_dv_release_context(b_->qp(), all[5]), EINVAL) << "not its";
  EXPECT_EQ(urnic_dv_release_context(a_->qp(), all[5]), 0);
  EXPECT_EQ(urnic_dv_release_context(a_->qp(), all[5]), EINVAL);
  EXPECT_EQ(urnic_dv_acquire_contexts(b_->qp(), 1, &one), 0);
  EXPECT_NE(one, all[5]) << "the key is another";
}

TEST_F(Rud, WindowsThatCannotBeMade) {
  urnic_dv_window window;
  urnic_dv_window_attr attr = {};
  EXPECT_EQ(urnic_dv_create_window(pd_, &attr, &window), nullptr) << "no job";
  EXPECT_EQ(errno, EINVAL);
  attr.job = kRudJob;
  attr.slot_bytes = 100'000;
  EXPECT_EQ(urnic_dv_create_window(pd_, &attr, &window), nullptr) << "slots";
  EXPECT_EQ(errno, EINVAL);
  attr.slot_bytes = 0;
  attr.send_entries = 1 << 20;
  EXPECT_EQ(urnic_dv_create_window(pd_, &attr, &window), nullptr) << "entries";
  EXPECT_EQ(errno, EINVAL);
  attr.send_entries = 0;
  attr.comp_mask = 2;
  EXPECT_EQ(urnic_dv_create_window(pd_, &attr, &window), nullptr) << "mask";
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(RudOfAnotherQueuePair, IsRefused) {
  OpenDevice device;
  const Pair pair(device);
  uint64_t context = 0;
  EXPECT_EQ(urnic_dv_acquire_contexts(pair.a.qp(), 1, &context), EINVAL);
  EXPECT_EQ(urnic_dv_remove_peer(pair.a.qp(), 1), EINVAL);
}

// Two endpoints of the upper layer on one device; more is in tests/sim/rud.
class RudEndpoint : public ::testing::Test {
 protected:
  RudEndpoint() : a_(OpenRudEndpoint(device_)), b_(OpenRudEndpoint(device_)) {
    to_b_ = IntroduceRudEndpoint(a_, b_);
    IntroduceRudEndpoint(b_, a_);
    std::iota(memory_.begin(), memory_.end(), uint8_t{0});
    EXPECT_EQ(urnic_ep_register(a_, memory_.data(), memory_.size(), kRudRights,
                                &pvo_),
              0);
  }
  ~RudEndpoint() override {
    EXPECT_EQ(urnic_ep_deregister(a_, pvo_), 0);
    EXPECT_EQ(urnic_ep_close(a_), 0);
    EXPECT_EQ(urnic_ep_close(b_), 0);
  }
  // Polls both until `endpoint` has an event.
  urnic_ep_event Await(urnic_ep* endpoint) {
    urnic_ep_event event = {};
    event.status = 255;
    for (int i = 0; i < 1'000'000; ++i) {
      urnic_ep_event other;
      EXPECT_EQ(urnic_ep_poll(endpoint == a_ ? b_ : a_, &other, 1), 0u);
      if (urnic_ep_poll(endpoint, &event, 1) != 0) break;
    }
    return event;
  }

  static constexpr size_t kHalf = 300'000;

  OpenDevice device_;
  urnic_ep* a_;
  urnic_ep* b_;
  uint32_t to_b_ = 0;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(2 * kHalf);
  uint64_t pvo_ = 0;
};

TEST_F(RudEndpoint, WritesAndReads) {
  ASSERT_EQ(urnic_ep_write(a_, to_b_, pvo_, pvo_ + kHalf, kHalf, 7), 0);
  urnic_ep_event event = Await(a_);
  EXPECT_EQ(event.type, URNIC_EP_DONE);
  EXPECT_EQ(event.status, URNIC_EP_OK);
  EXPECT_EQ(event.user, 7u);
  EXPECT_TRUE(std::equal(memory_.begin(), memory_.begin() + kHalf,
                         memory_.begin() + kHalf));
  std::fill(memory_.begin(), memory_.begin() + kHalf, 0);
  ASSERT_EQ(urnic_ep_read(a_, to_b_, pvo_, pvo_ + kHalf, kHalf, 8), 0);
  event = Await(a_);
  EXPECT_EQ(event.status, URNIC_EP_OK);
  EXPECT_EQ(event.user, 8u);
  EXPECT_TRUE(std::equal(memory_.begin(), memory_.begin() + kHalf,
                         memory_.begin() + kHalf));
}

TEST_F(RudEndpoint, SendsMessages) {
  ASSERT_EQ(urnic_ep_send_inline(a_, to_b_, "hello", 6, 1), 0);
  urnic_ep_event event = Await(b_);
  EXPECT_EQ(event.type, URNIC_EP_MESSAGE);
  ASSERT_EQ(event.bytes, 6u);
  EXPECT_STREQ(static_cast<const char*>(event.data), "hello");
}

TEST_F(RudEndpoint, SendsAMessageOfManyPackets) {
  ASSERT_EQ(urnic_ep_send(a_, to_b_, pvo_, 100'000, 1), 0);
  const urnic_ep_event event = Await(b_);
  EXPECT_EQ(event.type, URNIC_EP_MESSAGE);
  ASSERT_EQ(event.bytes, 100'000u);
  EXPECT_EQ(std::memcmp(event.data, memory_.data(), 100'000), 0);
}

TEST_F(RudEndpoint, MemoryOfThePeerThatIsNotRegistered) {
  ASSERT_EQ(urnic_ep_write(a_, to_b_, pvo_, pvo_ + 2 * kHalf, 8, 1), 0);
  EXPECT_EQ(Await(a_).status, URNIC_EP_REFUSED);
}

TEST_F(RudEndpoint, WhatIsRefusedAtOnce) {
  EXPECT_EQ(urnic_ep_write(a_, 99, pvo_, pvo_, 8, 1), EINVAL) << "no peer";
  uint8_t many[URNIC_RUD_INLINE + 1] = {};
  EXPECT_EQ(urnic_ep_write_inline(a_, to_b_, many, sizeof(many), pvo_, 1),
            EMSGSIZE);
  uint32_t peer = 0;
  EXPECT_EQ(urnic_ep_add_peer(a_, many, sizeof(many), &peer), EINVAL);
  EXPECT_EQ(urnic_ep_remove_peer(a_, 99), EINVAL);
  size_t bytes = 3;
  EXPECT_EQ(urnic_ep_address(a_, many, &bytes), ENOSPC);
  EXPECT_GT(bytes, 3u);
  EXPECT_LE(bytes, size_t{URNIC_EP_ADDRESS_BYTES});
  const urnic_ep_nic nic = {device_, -1};
  urnic_ep_attr attr = {};
  EXPECT_EQ(urnic_ep_open(&nic, 1, &attr), nullptr) << "no job";
  EXPECT_EQ(errno, EINVAL);
  attr.job = kRudJob;
  EXPECT_EQ(urnic_ep_open(&nic, 0, &attr), nullptr);
  attr.paths = 9;
  EXPECT_EQ(urnic_ep_open(&nic, 1, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(RudEndpoint, APeerThatIsRemovedCancelsItsOperations) {
  ASSERT_EQ(urnic_ep_write(a_, to_b_, pvo_, pvo_ + kHalf, kHalf, 7), 0);
  ASSERT_EQ(urnic_ep_remove_peer(a_, to_b_), 0);
  EXPECT_EQ(Await(a_).status, URNIC_EP_CANCELED);
}

TEST_F(RudEndpoint, Paths) {
  ASSERT_EQ(urnic_ep_write(a_, to_b_, pvo_, pvo_ + kHalf, 8, 1), 0);
  EXPECT_EQ(Await(a_).status, URNIC_EP_OK);
  urnic_ep_path paths[8];
  uint32_t count = 8;
  ASSERT_EQ(urnic_ep_query_paths(a_, to_b_, paths, &count), 0);
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(urnic_ep_query_paths(a_, 99, paths, &count), EINVAL);
  urnic_ep_stats stats;
  ASSERT_EQ(urnic_ep_query_stats(a_, &stats), 0);
  EXPECT_EQ(stats.units, 1u);
}

}  // namespace
}  // namespace urnic
