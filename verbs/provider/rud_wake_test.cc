// Handlers that sleep until a window of RUD has something (urnic_dv.h,
// "Sleeping"). The interleavings are in transport/rud/wake_test.cc.

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "verbs/provider/testing/rud_window.h"

namespace urnic {
namespace {

constexpr uint32_t kEntries = RudWindowEnd::kEntries;
constexpr uint16_t kStride = 1024;
constexpr int kForEver = 60'000;  // ms: longer than anything here takes

class Handler {
 public:
  explicit Handler(ibv_context* context) {
    const urnic_dv_handler_attr attr = {};
    it_ = urnic_dv_create_handler(context, &attr);
    EXPECT_NE(it_, nullptr) << strerror(errno);
  }
  ~Handler() { EXPECT_EQ(urnic_dv_destroy_handler(it_), 0); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

  urnic_dv_handler* get() { return it_; }
  void Arm() { EXPECT_EQ(urnic_dv_arm_handler(it_), 0); }
  void Disarm() { EXPECT_EQ(urnic_dv_disarm_handler(it_), 0); }
  // Whether it is told within this time.
  bool Sleep(int timeout_ms) {
    pollfd fd = {it_->fd, POLLIN, 0};
    return poll(&fd, 1, timeout_ms) == 1;
  }

 private:
  urnic_dv_handler* it_ = nullptr;
};

class RudWake : public ::testing::Test {
 protected:
  RudWake() : pd_(ibv_alloc_pd(device_)) {
    a_.emplace(pd_);
    b_.emplace(pd_);
    to_b_ = a_->AddPeer(*b_);
    b_->AddPeer(*a_);
    first_.emplace(device_);
    second_.emplace(device_);
  }
  ~RudWake() override {
    b_.reset();
    a_.reset();
    first_.reset();
    second_.reset();
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
  }
  static int BindTo(RudWindowEnd& window,
                    std::vector<urnic_dv_handler*> handlers,
                    uint32_t entries = 0, uint32_t delay_us = 0,
                    uint32_t flags = 0) {
    urnic_dv_wake_attr attr = {};
    attr.flags = flags;
    attr.entries = entries;
    attr.delay_us = delay_us;
    attr.count = static_cast<uint32_t>(handlers.size());
    attr.handlers = handlers.data();
    return urnic_dv_bind_handlers(window.qp(), &attr);
  }
  // RudWindowEnd b.
  template <typename... Rules>
  int Bind(std::vector<urnic_dv_handler*> handlers, Rules... rules) {
    return BindTo(*b_, std::move(handlers), rules...);
  }
  // A packet from a to b's receive FIFO. When it returns, the packet is there,
  // unless the helper thread has it: a device that is its own peer needs nobody
  // else.
  void SendPacket() {
    urnic_rud_send command = {};
    command.opcode = URNIC_RUD_PACKET;
    command.flags = URNIC_RUD_INLINE_DATA;
    command.peer = to_b_;
    command.window = b_->at().number;
    command.bytes = 8;
    a_->Post(command);
  }
  void SendPackets(int count) {
    for (int i = 0; i < count; ++i) SendPacket();
  }
  // All packets so far are in b's FIFO.
  void AwaitEntries(uint32_t count) {
    while (std::atomic_ref(b_->at().receive_indices->producer).load() != count)
      EXPECT_EQ(urnic_dv_progress(a_->qp()), 0);
  }
  // Of `bytes` into b's memory, of which b is told.
  urnic_rud_send Write(uint32_t bytes, uint64_t from, uint64_t to) {
    urnic_rud_send command = {};
    command.opcode = URNIC_RUD_WRITE;
    command.notify = URNIC_RUD_NOTIFY_TARGET;
    command.peer = to_b_;
    command.window = b_->at().number;
    command.context = b_->Acquire();
    command.local_context = a_->Acquire();
    command.tid = 1 << 8;
    command.local_pvo = from;
    command.remote_pvo = to;
    command.bytes = bytes;
    command.stride = kStride;
    command.packets =
        UINT64_MAX >> (URNIC_RUD_MAX_PACKETS - (bytes + kStride - 1) / kStride);
    return command;
  }

  OpenDevice device_;
  ibv_pd* pd_;
  std::optional<RudWindowEnd> a_;
  std::optional<RudWindowEnd> b_;
  uint32_t to_b_ = 0;
  std::optional<Handler> first_;
  std::optional<Handler> second_;
};

TEST_F(RudWake, AnEntryWakesAHandlerThatIsReady) {
  ASSERT_EQ(Bind({first_->get()}), 0);
  first_->Arm();
  EXPECT_FALSE(first_->Sleep(0));
  SendPacket();
  EXPECT_TRUE(first_->Sleep(kForEver));
  EXPECT_EQ(b_->TakeType(), URNIC_RUD_GOT_PACKET);
  first_->Arm();
  EXPECT_FALSE(first_->Sleep(0)) << "arming clears the descriptor";
}

TEST_F(RudWake, WhoeverWasToldIsNotReady) {
  ASSERT_EQ(Bind({first_->get()}), 0);
  SendPacket();
  AwaitEntries(1);
  EXPECT_FALSE(first_->Sleep(0)) << "was never armed";
  first_->Arm();
  EXPECT_TRUE(first_->Sleep(0)) << "the notice has waited";
  EXPECT_EQ(b_->TakeType(), URNIC_RUD_GOT_PACKET);
  SendPacket();
  AwaitEntries(2);
  EXPECT_EQ(b_->TakeType(), URNIC_RUD_GOT_PACKET);
  first_->Arm();
  EXPECT_FALSE(first_->Sleep(0)) << "the program has seen it without a notice";
}

TEST_F(RudWake, TheFirstReadyHandlerIsTold) {
  ASSERT_EQ(Bind({first_->get(), second_->get()}), 0);
  first_->Arm();
  second_->Arm();
  SendPacket();
  EXPECT_TRUE(first_->Sleep(kForEver));
  EXPECT_FALSE(second_->Sleep(0));
  SendPacket();
  EXPECT_TRUE(second_->Sleep(kForEver)) << "the first is not ready";
  SendPacket();
  AwaitEntries(3);
  second_->Arm();
  EXPECT_TRUE(second_->Sleep(0)) << "the next that is armed";
}

TEST_F(RudWake, ADisarmedHandlerIsNotTold) {
  ASSERT_EQ(Bind({first_->get(), second_->get()}), 0);
  first_->Arm();
  second_->Arm();
  first_->Disarm();
  SendPacket();
  EXPECT_TRUE(second_->Sleep(kForEver));
  EXPECT_FALSE(first_->Sleep(0));
}

TEST_F(RudWake, OneHandlerOfTwoWindows) {
  ASSERT_EQ(Bind({first_->get()}), 0);
  ASSERT_EQ(BindTo(*a_, {first_->get()}), 0);
  first_->Arm();
  SendPacket();
  EXPECT_TRUE(first_->Sleep(kForEver));
  EXPECT_EQ(b_->TakeType(), URNIC_RUD_GOT_PACKET);
}

TEST_F(RudWake, SoManyEntriesAreWaitedFor) {
  ASSERT_EQ(Bind({first_->get()}, 3), 0);
  first_->Arm();
  SendPackets(2);
  AwaitEntries(2);
  EXPECT_FALSE(first_->Sleep(0));
  SendPacket();
  EXPECT_TRUE(first_->Sleep(kForEver));
}

TEST_F(RudWake, NoMoreEntriesAreWaitedForThanTheFifoHolds) {
  ASSERT_EQ(Bind({first_->get()}, 1000), 0);
  first_->Arm();
  SendPackets(kEntries);
  EXPECT_TRUE(first_->Sleep(kForEver));
}

TEST_F(RudWake, NoEntryWaitsForLongerThanTheDelay) {
  ASSERT_EQ(Bind({first_->get()}, URNIC_DV_WAKE_NEVER, 1000), 0);
  first_->Arm();
  SendPacket();
  EXPECT_TRUE(first_->Sleep(kForEver));
  EXPECT_EQ(b_->TakeType(), URNIC_RUD_GOT_PACKET);
  ASSERT_EQ(Bind({first_->get()}, URNIC_DV_WAKE_NEVER), 0);
  first_->Arm();
  SendPackets(4);
  AwaitEntries(5);
  EXPECT_FALSE(first_->Sleep(0)) << "neither number nor time counts";
}

TEST_F(RudWake, WhatIsInTheFifoCountsWhenTheWindowIsBound) {
  SendPackets(2);
  AwaitEntries(2);
  first_->Arm();
  ASSERT_EQ(Bind({first_->get()}, 3), 0);
  EXPECT_FALSE(first_->Sleep(0));
  ASSERT_EQ(Bind({first_->get()}, 2), 0);
  EXPECT_TRUE(first_->Sleep(0));
  first_->Arm();
  ASSERT_EQ(Bind({first_->get()}, 3, 1000), 0);
  EXPECT_TRUE(first_->Sleep(kForEver)) << "the time begins now";
}

TEST_F(RudWake, TheFirstPacketOfATransferWakes) {
  std::vector<uint8_t> memory(2 * kStride, 0x77);
  std::vector<uint8_t> target(2 * kStride);
  uint64_t from = 0;
  uint64_t to = 0;
  ASSERT_EQ(urnic_dv_register(device_, kRudJob, memory.data(), memory.size(),
                              kRudRights, &from),
            0);
  ASSERT_EQ(urnic_dv_register(device_, kRudJob, target.data(), target.size(),
                              kRudRights, &to),
            0);
  urnic_rud_send command = Write(2 * kStride, from, to);
  command.packets = 1;  // the second is lost
  for (const uint32_t flags : {0u, uint32_t{URNIC_DV_WAKE_EARLY}}) {
    ASSERT_EQ(Bind({first_->get()}, 0, 0, flags), 0);
    first_->Arm();
    command.tid += 1 << 8;
    a_->Post(command);
    while (target[0] == 0) EXPECT_EQ(urnic_dv_progress(b_->qp()), 0);
    EXPECT_EQ(first_->Sleep(flags != 0 ? kForEver : 0), flags != 0);
    target[0] = 0;
  }
  EXPECT_EQ(b_->TakeType(), 0);
  first_->Arm();
  command.tid += 1;
  command.packets = 2;
  a_->Post(command);
  EXPECT_TRUE(first_->Sleep(kForEver));
  EXPECT_EQ(b_->TakeType(), URNIC_RUD_GOT_TRANSFER);
  EXPECT_EQ(urnic_dv_deregister(device_, kRudJob, from), 0);
  EXPECT_EQ(urnic_dv_deregister(device_, kRudJob, to), 0);
}

TEST_F(RudWake, AWindowThatFailsWakes) {
  ASSERT_EQ(Bind({first_->get()}), 0);
  ASSERT_EQ(BindTo(*a_, {second_->get()}), 0);
  first_->Arm();
  second_->Arm();
  a_->Post(Write(8, 0, 0));  // no PVO
  EXPECT_TRUE(second_->Sleep(kForEver));
  EXPECT_FALSE(first_->Sleep(0)) << "it is not its window";
  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(device_, &event), 0);
  ibv_ack_async_event(&event);
}

TEST_F(RudWake, WhatIsRefused) {
  EXPECT_EQ(Bind({first_->get(), first_->get()}), EINVAL) << "twice";
  EXPECT_EQ(Bind(std::vector(17, first_->get())), EINVAL) << "too many";
  EXPECT_EQ(Bind({first_->get()}, 1, 0, 1 << 7), EINVAL) << "flag";
  urnic_dv_wake_attr attr = {};
  attr.comp_mask = 1;
  EXPECT_EQ(urnic_dv_bind_handlers(b_->qp(), &attr), EOPNOTSUPP);
  urnic_dv_handler_attr unknown = {};
  unknown.comp_mask = 1;
  EXPECT_EQ(urnic_dv_create_handler(device_, &unknown), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ASSERT_EQ(Bind({first_->get()}), 0);
  EXPECT_EQ(urnic_dv_destroy_handler(first_->get()), EBUSY);
  ASSERT_EQ(Bind({}), 0) << "it is bound to none now";
  const Pair pair(device_);
  attr.comp_mask = 0;
  EXPECT_EQ(urnic_dv_bind_handlers(pair.a.qp(), &attr), EINVAL);
}

// Each packet is taken by one of several threads that sleep, whatever the order
// of arming and arriving.
TEST_F(RudWake, SleepersLoseNothing) {
  constexpr uint32_t kPackets = 20'000;
  ASSERT_EQ(Bind({first_->get(), second_->get()}), 0);
  std::atomic<uint32_t> taken = 0;
  std::mutex fifo;
  const auto take_all = [&] {
    const std::scoped_lock lock(fifo);
    uint32_t count = 0;
    while (b_->TakeType() != 0) ++count;
    taken += count;
    return count != 0;
  };
  std::atomic<bool> ends = false;
  std::atomic<int> running = 2;
  const auto serve = [&](Handler& handler) {
    while (!ends) {
      handler.Arm();
      if (take_all()) continue;
      EXPECT_TRUE(handler.Sleep(kForEver));
    }
    --running;
  };
  std::thread one([&] { serve(*first_); });
  std::thread two([&] { serve(*second_); });
  for (uint32_t sent = 0; sent < kPackets;) {
    if (sent - taken >= kEntries / 2) continue;
    SendPacket();
    ++sent;
  }
  while (taken != kPackets) std::this_thread::yield();
  ends = true;
  // A burst of packets tells one of them.
  while (running != 0) {
    SendPacket();
    take_all();
  }
  one.join();
  two.join();
}

// --- Endpoints ---------------------------------------------------------------

class EndpointsThatSleep : public ::testing::Test {
 protected:
  EndpointsThatSleep()
      : a_(OpenRudEndpoint(device_)), b_(OpenRudEndpoint(device_)) {
    to_b_ = IntroduceRudEndpoint(a_, b_);
    to_a_ = IntroduceRudEndpoint(b_, a_);
  }
  ~EndpointsThatSleep() override {
    EXPECT_EQ(urnic_ep_close(a_), 0);
    EXPECT_EQ(urnic_ep_close(b_), 0);
  }
  // Sleeps until there is an event.
  static urnic_ep_event Await(urnic_ep* endpoint) {
    urnic_ep_event event = {};
    while (urnic_ep_poll(endpoint, &event, 1) == 0)
      EXPECT_EQ(urnic_ep_wait(endpoint, kForEver), 0);
    return event;
  }

  OpenDevice device_;
  urnic_ep* a_;
  urnic_ep* b_;
  uint32_t to_b_ = 0;
  uint32_t to_a_ = 0;
};

TEST_F(EndpointsThatSleep, ExchangeMessages) {
  constexpr uint64_t kRounds = 500;
  std::thread echo([&] {
    for (uint64_t i = 0; i < 2 * kRounds; ++i) {
      const urnic_ep_event event = Await(b_);
      EXPECT_EQ(event.status, URNIC_EP_OK);
      if (event.type != URNIC_EP_MESSAGE) continue;
      EXPECT_EQ(urnic_ep_send_inline(b_, to_a_, event.data, 8, i), 0);
    }
  });
  for (uint64_t i = 0; i < kRounds; ++i) {
    EXPECT_EQ(urnic_ep_send_inline(a_, to_b_, &i, sizeof(i), i), 0);
    for (int events = 0; events < 2; ++events) {
      const urnic_ep_event event = Await(a_);
      EXPECT_EQ(event.status, URNIC_EP_OK);
      if (event.type == URNIC_EP_MESSAGE) {
        EXPECT_EQ(std::memcmp(event.data, &i, sizeof(i)), 0);
      }
    }
  }
  // Nobody has to poll here for the last completion at the other end.
  echo.join();
}

TEST_F(EndpointsThatSleep, ForNoLongerThanTheyWant) {
  urnic_ep_event event;
  int result = 0;
  do {
    EXPECT_EQ(urnic_ep_poll(a_, &event, 1), 0u);
    result = urnic_ep_wait(a_, 1);
  } while (result == 0);
  EXPECT_EQ(result, ETIMEDOUT);
}

}  // namespace
}  // namespace urnic
