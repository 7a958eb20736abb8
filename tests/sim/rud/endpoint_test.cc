// Operations of the upper layer that fail, and how they end.

#include "transport/rud/upper/endpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/sim/rud/rud_net.h"
#include "transport/mem/mr_table.h"
#include "transport/rud/upper/peer.h"

namespace urnic::sim {
namespace {

using rud::upper::Endpoint;
using rud::upper::EndpointConfig;
using rud::upper::Event;
using rud::upper::EventType;
using rud::upper::Status;

constexpr uint32_t kJob = 3;
constexpr uint32_t kBytes = 8192;
constexpr uint32_t kRights =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;

class EndpointTest : public ::testing::Test {
 protected:
  EndpointTest()
      : net_(&world_, 1, [](uint32_t, uint32_t, uint8_t) {
          LinkConfig link;
          link.delay = Duration::Microseconds(10);
          return link;
        }) {
    for (uint32_t i = 0; i < 2; ++i) {
      testing::RudEndConfig config;
      config.window = {.number = i + 1, .job = kJob, .key = 7};
      config.address = RudAddressOf(i + 1);
      config.contexts = 600;
      nics_[i] = std::make_unique<RudNic>(&net_, i + 1, config, 256);
      memory_[i].resize(kBytes);
      pvos_[i] = *nics_[i]->end().tces().Register(
          kJob, reinterpret_cast<uint64_t>(memory_[i].data()), kBytes, kRights,
          rud::PageSize::k4K);
      rud::upper::Adapter* adapter = nics_[i].get();
      EndpointConfig upper;
      upper.lost_after = Duration::Seconds(1);
      upper.operations = 4;
      upper.reassembly_bytes = 16384;
      ends_[i] = std::make_unique<Endpoint>(
          upper, std::span<rud::upper::Adapter* const>(&adapter, 1), i + 1);
    }
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_EQ(ends_[i]->AddPeer(world_.now(), ends_[1 - i]->Address()), 1u);
    }
  }

  // Runs until an operation of the first endpoint ends, for at most two
  // seconds. Returns the status; kTryAgain: none has ended.
  Status Run() {
    const Time limit = world_.now() + Duration::Seconds(2);
    while (world_.now() < limit) {
      for (uint32_t i = 0; i < 2; ++i) {
        Event event;
        if (ends_[i] == nullptr) continue;
        if (ends_[i]->Poll(world_.now(), {&event, 1}) == 0) continue;
        if (i == 0 && event.type == EventType::kDone) return event.status;
      }
      const Time next = world_.now() + Duration::Microseconds(20);
      world_.At(next, [] {});
      world_.RunUntil(next);
    }
    return Status::kTryAgain;
  }
  Time now() const { return world_.now(); }

  World world_;
  RudNet net_;
  std::unique_ptr<RudNic> nics_[2];
  std::vector<uint8_t> memory_[2];
  rud::Pvo pvos_[2];
  std::unique_ptr<Endpoint> ends_[2];
};

TEST_F(EndpointTest, MemoryOfThePeerThatWeMayNotAccessIsRefused) {
  const uint64_t beyond = pvos_[1].value + kBytes - 100;
  // The second of three units is refused.
  ASSERT_EQ(ends_[0]->Write(now(), 1, pvos_[0].value, beyond - 4096, 8192, 1),
            Status::kOk);
  EXPECT_EQ(Run(), Status::kRefused);
  ASSERT_EQ(ends_[0]->Read(now(), 1, pvos_[0].value, beyond, 200, 2),
            Status::kOk);
  EXPECT_EQ(Run(), Status::kRefused);
  // Nothing else is disturbed.
  ASSERT_EQ(
      ends_[0]->Write(now(), 1, pvos_[0].value, pvos_[1].value, kBytes, 3),
      Status::kOk);
  EXPECT_EQ(Run(), Status::kOk);
}

TEST_F(EndpointTest, MemoryOfOursThatWeMayNotReadEndsTheWindow) {
  ASSERT_EQ(ends_[0]->Write(now(), 1, pvos_[0].value + kBytes, pvos_[1].value,
                            100, 1),
            Status::kOk);
  EXPECT_EQ(Run(), Status::kBadLocal);
  EXPECT_TRUE(nics_[0]->end().window().failed());
  // It was the only window.
  EXPECT_TRUE(ends_[0]->IsLost(1));
  EXPECT_EQ(ends_[0]->Write(now(), 1, pvos_[0].value, pvos_[1].value, 8, 2),
            Status::kPeerLost);
}

TEST_F(EndpointTest, APeerWithoutAPathIsLost) {
  const uint8_t data[8] = {};
  ASSERT_EQ(ends_[0]->WriteInline(now(), 1, data, pvos_[1].value, 1),
            Status::kOk);
  EXPECT_EQ(Run(), Status::kOk);
  net_.SetNicDead(2, true);
  ASSERT_EQ(ends_[0]->WriteInline(now(), 1, data, pvos_[1].value, 2),
            Status::kOk);
  EXPECT_EQ(Run(), Status::kPeerLost);
  EXPECT_TRUE(ends_[0]->IsLost(1));
}

TEST_F(EndpointTest, APeerThatHasEndedIsLostSoon) {
  const uint8_t data[8] = {};
  ASSERT_EQ(ends_[0]->WriteInline(now(), 1, data, pvos_[1].value, 1),
            Status::kOk);
  EXPECT_EQ(Run(), Status::kOk);
  ends_[1].reset();
  const Time end = now();
  ASSERT_EQ(ends_[0]->WriteInline(now(), 1, data, pvos_[1].value, 2),
            Status::kOk);
  EXPECT_EQ(Run(), Status::kPeerLost);
  EXPECT_LT((now() - end).ns(), Duration::Milliseconds(200).ns());
}

// The peer ends before it has found a path to us.
TEST_F(EndpointTest, APeerThatEndsAtOnceIsLostSoon) {
  ends_[1].reset();
  const uint8_t data[8] = {};
  ASSERT_EQ(ends_[0]->WriteInline(now(), 1, data, pvos_[1].value, 1),
            Status::kOk);
  const Time end = now();
  EXPECT_EQ(Run(), Status::kPeerLost);
  EXPECT_LT((now() - end).ns(), Duration::Milliseconds(200).ns());
}

// An answer that was sent before the end is accepted after it.
TEST_F(EndpointTest, TheAnswerOfAPeerThatEndsIsHeard) {
  const uint8_t data[8] = {};
  ASSERT_EQ(ends_[0]->SendInline(now(), 1, data, 1), Status::kOk);
  EXPECT_EQ(Run(), Status::kOk);
  ASSERT_EQ(ends_[0]->SendInline(now(), 1, data, 2), Status::kOk);
  ends_[0]->Flush();
  const Time arrived = now() + Duration::Microseconds(15);
  world_.At(arrived, [] {});
  world_.RunUntil(arrived);
  ends_[1].reset();
  EXPECT_EQ(Run(), Status::kOk);
}

// The peer may be stopped in a debugger. Its memory can still be written, and
// messages wait for its FIFO.
TEST_F(EndpointTest, APeerWhoseFifoIsFullIsNotLost) {
  const uint8_t data[8] = {};
  ASSERT_EQ(ends_[0]->SendInline(now(), 1, data, 1), Status::kOk);
  EXPECT_EQ(Run(), Status::kOk);
  std::unique_ptr<Endpoint> asleep = std::move(ends_[1]);
  Status last = Status::kOk;
  while (last == Status::kOk) {
    ASSERT_EQ(ends_[0]->SendInline(now(), 1, data, 2), Status::kOk);
    last = Run();
  }
  // Nothing for two seconds. A peer without a path would be lost after one.
  EXPECT_EQ(last, Status::kTryAgain);
  EXPECT_FALSE(ends_[0]->IsLost(1));
  ASSERT_EQ(ends_[0]->WriteInline(now(), 1, data, pvos_[1].value, 3),
            Status::kOk);
  EXPECT_EQ(Run(), Status::kOk);
  ends_[1] = std::move(asleep);
  EXPECT_EQ(Run(), Status::kOk);
}

TEST_F(EndpointTest, OperationsOfAPeerThatIsRemovedAreCanceled) {
  net_.SetNicDead(2, true);
  const uint8_t data[8] = {};
  ASSERT_EQ(ends_[0]->SendInline(now(), 1, data, 1), Status::kOk);
  ends_[0]->RemovePeer(now(), 1);
  EXPECT_EQ(Run(), Status::kCanceled);
  EXPECT_EQ(nics_[0]->contexts(), 0u);
}

TEST_F(EndpointTest, AnswersThatCameWhileTheProgramWasAwayAreHeardFirst) {
  const auto write = [this](uint64_t user) {
    return ends_[0]->Write(now(), 1, pvos_[0].value, pvos_[1].value, 8, user);
  };
  ASSERT_EQ(write(1), Status::kOk);
  EXPECT_EQ(Run(), Status::kOk);
  for (const uint64_t user : {2, 3, 4}) ASSERT_EQ(write(user), Status::kOk);
  ends_[0]->Flush();
  const uint64_t time_outs = ends_[0]->stats().time_outs;
  const Time back = now() + Duration::Milliseconds(20);
  world_.At(back, [] {});
  world_.RunUntil(back);
  // Each poll takes one answer.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Run(), Status::kOk);
  EXPECT_EQ(ends_[0]->stats().time_outs, time_outs);
  EXPECT_EQ(ends_[0]->stats().packets_again, 0u);
}

class SmallWrites : public EndpointTest {
 protected:
  // Writes eight bytes to this PVO.
  void Write(uint64_t pvo, uint64_t user) {
    const std::vector<uint8_t> data(8, static_cast<uint8_t>(user));
    ASSERT_EQ(ends_[0]->WriteInline(now(), 1, data, pvo, user), Status::kOk);
  }
  bool Lies(size_t place, uint64_t user) const {
    return std::all_of(&memory_[1][place], &memory_[1][place + 8],
                       [user](uint8_t byte) { return byte == user; });
  }
  uint64_t pvo() const { return pvos_[1].value; }
};

TEST_F(SmallWrites, ThoseThatLeaveTogetherShareAPacket) {
  Write(pvo(), 1);
  EXPECT_EQ(Run(), Status::kOk);  // contexts are now exchanged
  const auto before = ends_[0]->stats();
  for (uint64_t i = 0; i < 4; ++i) Write(pvo() + 100 * i, i + 2);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Run(), Status::kOk);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(Lies(100 * i, i + 2));
  EXPECT_EQ(ends_[0]->stats().commands, before.commands + 1);
  EXPECT_EQ(ends_[0]->stats().shared, before.shared + 3);
  EXPECT_EQ(Run(), Status::kTryAgain) << "each ends once";
}

TEST_F(SmallWrites, WhatHasLeftIsNotJoined) {
  Write(pvo(), 1);
  EXPECT_EQ(Run(), Status::kOk);
  Write(pvo(), 2);
  ends_[0]->Flush();
  Write(pvo() + 8, 3);
  EXPECT_EQ(Run(), Status::kOk);
  EXPECT_EQ(Run(), Status::kOk);
  EXPECT_TRUE(Lies(0, 2) && Lies(8, 3));
  EXPECT_EQ(ends_[0]->stats().shared, 0u);
}

TEST_F(SmallWrites, OneThatIsRefusedDoesNotHarmTheOthers) {
  Write(pvo(), 1);
  EXPECT_EQ(Run(), Status::kOk);
  Write(pvo(), 2);
  Write(pvo() + kBytes - 4, 3);
  Write(pvo() + 8, 4);
  uint32_t refused = 0;
  for (int i = 0; i < 3; ++i) {
    const Status status = Run();
    refused += status == Status::kRefused ? 1 : 0;
    EXPECT_TRUE(status == Status::kRefused || status == Status::kOk);
  }
  EXPECT_EQ(refused, 1u);
  EXPECT_TRUE(Lies(0, 2) && Lies(8, 4));
}

// A write to a PVO in a table of another job gets no answer at all.
TEST_F(SmallWrites, OneThatIsDroppedSilentlyDoesNotHoldTheOthersBack) {
  Write(pvo(), 1);
  EXPECT_EQ(Run(), Status::kOk);
  Write(pvo(), 2);
  Write(pvo() ^ uint64_t{1} << 42, 3);
  Write(pvo() + 8, 4);
  EXPECT_EQ(Run(), Status::kOk);
  EXPECT_EQ(Run(), Status::kOk);
  EXPECT_TRUE(Lies(0, 2) && Lies(8, 4));
  EXPECT_EQ(Run(), Status::kTryAgain);
}

TEST_F(SmallWrites, AListThatWasLostIsSentAgain) {
  Write(pvo(), 1);
  EXPECT_EQ(Run(), Status::kOk);
  net_.SetNicDead(2, true);
  Write(pvo(), 2);
  Write(pvo() + 8, 3);
  ends_[0]->Flush();
  const Time later = now() + Duration::Milliseconds(1);
  world_.At(later, [] {});
  world_.RunUntil(later);
  net_.SetNicDead(2, false);
  EXPECT_EQ(Run(), Status::kOk);
  EXPECT_EQ(Run(), Status::kOk);
  EXPECT_TRUE(Lies(0, 2) && Lies(8, 3));
  EXPECT_NE(ends_[0]->stats().packets_again, 0u);
}

TEST_F(EndpointTest, WhatCannotBeTakenIsRefusedAtOnce) {
  const uint8_t data[33] = {};
  EXPECT_EQ(ends_[0]->WriteInline(now(), 9, std::span(data).first(8), 0, 1),
            Status::kUnknownPeer);
  EXPECT_EQ(ends_[0]->WriteInline(now(), 1, data, 0, 1), Status::kTooLong);
  EXPECT_EQ(ends_[0]->Send(now(), 1, pvos_[0].value, 16385, 1),
            Status::kTooLong);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ends_[0]->SendInline(now(), 1, std::span(data).first(8), 1),
              Status::kOk);
  }
  EXPECT_EQ(ends_[0]->SendInline(now(), 1, std::span(data).first(8), 1),
            Status::kTryAgain);
  EXPECT_EQ(ends_[0]->AddPeer(now(), data), 0u);
}

// Two subnets. Each end has a NIC in each.
class TwoRails : public ::testing::Test {
 protected:
  static constexpr uint32_t kNics = 4;  // 1 and 3 are in one subnet

  TwoRails()
      : net_(&world_, 1, [](uint32_t, uint32_t, uint8_t) {
          LinkConfig link;
          link.delay = Duration::Microseconds(10);
          return link;
        }) {
    for (uint32_t i = 0; i < kNics; ++i) {
      testing::RudEndConfig config;
      config.window = {.number = i + 1, .job = kJob, .key = 7};
      config.address = RudAddressOf(i + 1);
      config.contexts = 600;
      nics_[i] = std::make_unique<RudNic>(&net_, i + 1, config, 256);
      nics_[i]->reaches = [i](const wire::Gid& gid) {
        return gid == RudAddressOf((i ^ 2) + 1);
      };
    }
    for (uint32_t i = 0; i < 2; ++i) {
      rud::upper::Adapter* adapters[] = {nics_[2 * i].get(),
                                         nics_[2 * i + 1].get()};
      ends_[i] = std::make_unique<Endpoint>(EndpointConfig{}, adapters, i + 1);
    }
  }
  // Runs until `wanted` messages have arrived at the second end, for at most
  // two seconds. Returns how many have arrived.
  uint32_t Run(uint32_t wanted) {
    const Time limit = world_.now() + Duration::Seconds(2);
    uint32_t messages = 0;
    while (world_.now() < limit && messages < wanted) {
      for (const auto& end : ends_) {
        Event event;
        if (end->Poll(world_.now(), {&event, 1}) == 0) continue;
        if (event.type == EventType::kMessage) ++messages;
      }
      const Time next = world_.now() + Duration::Microseconds(20);
      world_.At(next, [] {});
      world_.RunUntil(next);
    }
    return messages;
  }

  World world_;
  RudNet net_;
  std::unique_ptr<RudNic> nics_[kNics];
  std::unique_ptr<Endpoint> ends_[2];
};

TEST_F(TwoRails, PairsOfNicsWithoutAWayBetweenThemAreNotUsed) {
  for (uint32_t i = 0; i < 2; ++i)
    ASSERT_EQ(ends_[i]->AddPeer(world_.now(), ends_[1 - i]->Address()), 1u);
  const uint8_t data[8] = {};
  for (uint32_t i = 0; i < 200; ++i)
    ASSERT_EQ(ends_[0]->SendInline(world_.now(), 1, data, i), Status::kOk);
  EXPECT_EQ(Run(200), 200u);
  for (const rud::upper::Pair& pair : ends_[0]->peer(1)->pairs)
    EXPECT_EQ(pair.is_reachable(), pair.nic->number == pair.peer_nic);
  // One of the two rails dies.
  net_.SetNicDead(1, true);
  for (uint32_t i = 0; i < 200; ++i)
    ASSERT_EQ(ends_[0]->SendInline(world_.now(), 1, data, i), Status::kOk);
  EXPECT_EQ(Run(200), 200u);
  for (const auto& end : ends_) end->RemovePeer(world_.now(), 1);
}

TEST_F(TwoRails, APeerThatNoNicReachesIsRefused) {
  for (const auto& nic : nics_)
    nic->reaches = [](const wire::Gid&) { return false; };
  EXPECT_EQ(ends_[0]->AddPeer(world_.now(), ends_[1]->Address()), 0u);
}

}  // namespace
}  // namespace urnic::sim
