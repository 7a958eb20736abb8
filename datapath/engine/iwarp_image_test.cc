// Images of iWARP's queue pairs and connections: their contents, and how the
// connections continue in another engine that has the same address.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"
#include "tests/support/iwarp_node.h"
#include "transport/iwarp/qp/image.h"

namespace urnic {
namespace {

using iwarp::Event;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IwarpNode;
using testing::IwarpNodeOptions;
using testing::IwarpPair;
using testing::SendWr;
using Program = IwarpNode::Program;

constexpr uint16_t kPort = 7000;
constexpr size_t kSource = 0;
constexpr size_t kTarget = 512 << 10;
constexpr uint32_t kBytes = 400000;
// The new engine has the memory of the old one under the same key.
constexpr NumberKey kNumberKey = {{1, 2}};

// --- What is listed ----------------------------------------------------------

std::vector<ImageKind> KindsIn(const std::string& images) {
  std::vector<ImageKind> kinds;
  std::span<const uint8_t> rest(reinterpret_cast<const uint8_t*>(images.data()),
                                images.size());
  while (!rest.empty()) {
    const size_t bytes = ImageLength(rest);
    EXPECT_TRUE(ReadImageKind(rest.first(bytes), kinds.emplace_back()).ok());
    rest = rest.subspan(bytes);
  }
  return kinds;
}

TEST(IwarpImageTest, WhatANodeHasIsListed) {
  IwarpPair pair("iwi-list");
  const auto list = [](IwarpNode& node) {
    std::string images;
    std::optional<uint32_t> place = 0;
    while (place.has_value()) {
      Engine::ControlScope scope(node.engine());
      place =
          node.engine().qps().AppendImages(*place, images.size() + 1, images);
    }
    for (place = 0; place.has_value();) {
      place = node.Control([&](ConnectionTable& table) {
        return table.AppendImages(*place, images.size() + 1, images);
      });
    }
    return KindsIn(images);
  };
  EXPECT_THAT(list(pair.b), ElementsAre());
  Program& from = pair.a.Create();
  Program& to = pair.b.Create();
  EXPECT_THAT(list(pair.b), ElementsAre(ImageKind::kIwarpQp));
  pair.b.Listen(kPort);
  pair.a.Connect(from, pair.b, 2000, kPort);
  ASSERT_TRUE(pair.RunUntil([&] { return pair.b.has_told(Event::kRequest); }));
  EXPECT_THAT(list(pair.a),
              ElementsAre(ImageKind::kIwarp, ImageKind::kIwarpCounts));
  EXPECT_THAT(list(pair.b), ElementsAre(ImageKind::kIwarpQp, ImageKind::kIwarp,
                                        ImageKind::kIwarpCounts));
  ASSERT_TRUE(pair.b.Accept(*pair.b.told.back().connection, to).ok());
  ASSERT_TRUE(
      pair.RunUntil([&] { return pair.a.has_told(Event::kConnected); }));
  EXPECT_THAT(list(pair.b),
              ElementsAre(ImageKind::kIwarp, ImageKind::kIwarpCounts));
}

// --- Moves -------------------------------------------------------------------

struct Move {
  const char* name;
  bool active;  // the end that connects moves
  const char* fault = "";
};

class IwarpMoveTest : public ::testing::TestWithParam<Move> {
 protected:
  IwarpMoveTest()
      : pair_(std::string("iwi-") + GetParam().name,
              {.fault = GetParam().fault, .number_key = kNumberKey}) {
    for (IwarpNode* node : {&stays_, &moves_}) {
      for (size_t i = 0; i < kTarget; ++i) {
        node->memory()[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
      }
    }
  }
  [[nodiscard]] bool Connect() {
    Program& from = GetParam().active ? moved_ : still_;
    Program& to = GetParam().active ? still_ : moved_;
    if (!pair_.Connect(from, to)) return false;
    const IwarpConnection& connection = *moved_.qp->connection();
    where_.path = connection.path();
    where_.local_port = connection.tuple().local_port;
    where_.remote_port = connection.tuple().remote_port;
    qpn_ = moved_.qp->qpn();
    return true;
  }
  bool Send(IwarpNode& node, Program& program, uint8_t opcode, uint64_t wr_id) {
    IwarpNode& peer = &node == &stays_ ? moves_ : stays_;
    const size_t at = opcode == URNIC_WR_RDMA_READ ? kTarget : kSource;
    SendWr wr = {.opcode = opcode,
                 .wr_id = wr_id,
                 .sges = {node.Sge(at, kBytes)},
                 .remote_addr = peer.address(
                     opcode == URNIC_WR_RDMA_READ ? kSource : kTarget)};
    wr.rkey = peer.key();
    return node.PostSend(program, wr);
  }
  // Another engine, at the end of the wire that the old one had.
  [[nodiscard]] absl::Status Insert(const std::string& image) {
    moves_.End();
    next_.emplace(
        std::string("ring:iwi-") + GetParam().name +
            (GetParam().active ? ":a" : ":b"),
        GetParam().active ? 1 : 2,
        IwarpNodeOptions{.fault = GetParam().fault, .number_key = kNumberKey});
    return next_->Insert(moves_, moved_, qpn_, where_, image);
  }
  [[nodiscard]] bool RunUntil(const std::function<bool()>& condition) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      for (IwarpNode* node : {&stays_, &*next_}) {
        node->engine().Progress();
        node->Drain();
      }
    }
    return true;
  }
  uint32_t received() const {
    const auto& tcp = moved_.qp->connection()->endpoint().connection();
    return static_cast<uint32_t>(tcp.receiver().next() - first_);
  }
  void ExpectCopied(IwarpNode& node) {
    EXPECT_EQ(std::memcmp(node.memory() + kTarget, node.memory(), kBytes), 0);
  }

  IwarpPair pair_;
  IwarpNode& moves_ = GetParam().active ? pair_.a : pair_.b;
  IwarpNode& stays_ = GetParam().active ? pair_.b : pair_.a;
  Program& moved_ = moves_.Create();
  Program& still_ = stays_.Create();
  uint32_t qpn_ = 0;
  ConnectConfig where_;
  SeqNum first_;
  std::optional<IwarpNode> next_;
};

// In flight are a write, a send and a read of the peer, and a write of this
// end, which also has a posted request that is not sent yet.
TEST_P(IwarpMoveTest, AConnectionGoesOnInTheMiddleOfItsTransfers) {
  ASSERT_TRUE(Connect());
  first_ = moved_.qp->connection()->endpoint().connection().receiver().next();
  ASSERT_TRUE(moves_.PostReceive(
      moved_, {.wr_id = 1, .sges = {moves_.Sge(kTarget, kBytes)}}));
  ASSERT_TRUE(Send(stays_, still_, URNIC_WR_SEND, 1));
  ASSERT_TRUE(Send(stays_, still_, URNIC_WR_RDMA_READ, 2));
  ASSERT_TRUE(Send(moves_, moved_, URNIC_WR_RDMA_WRITE, 2));
  ASSERT_TRUE(pair_.RunUntil([&] { return received() > kBytes / 4; }));
  if (*GetParam().fault == 0) {
    ASSERT_LT(received(), kBytes);
  }
  const std::string image = moves_.Extract(moved_);
  EXPECT_EQ(moves_.connections().size(), 0u);
  EXPECT_EQ(moves_.network().iwarp_qps().size(), 0u);
  SendWr posted = {.opcode = URNIC_WR_RDMA_WRITE,
                   .wr_id = 3,
                   .sges = {moves_.Sge(kSource, 8)},
                   .remote_addr = stays_.address(kTarget)};
  posted.rkey = stays_.key();
  ASSERT_TRUE(moved_.rings.PostSend(posted));
  const absl::Status inserted = Insert(image);
  ASSERT_TRUE(inserted.ok()) << inserted;
  EXPECT_EQ(moved_.qp->core_state(), QpState::kRts);
  ASSERT_TRUE(RunUntil([&] {
    return stays_.done.size() == 2 &&
           moves_.done.size() + next_->done.size() == 3;
  }));
  for (const IwarpNode* node : {&stays_, &moves_, &*next_}) {
    for (const urnic_cqe& done : node->done) {
      EXPECT_EQ(done.status, URNIC_WC_SUCCESS) << done.wr_id;
    }
  }
  ExpectCopied(stays_);
  ExpectCopied(moves_);
  // The owner gets no event about the move, and the connection ends in order.
  EXPECT_TRUE(next_->told.empty());
  stays_.Modify(still_, QpState::kErr);
  ASSERT_TRUE(RunUntil([&] { return next_->has_told(Event::kDisconnected); }));
  EXPECT_EQ(next_->told.back().connection->endpoint().failure(),
            iwarp::Failure::kNone);
}

TEST_P(IwarpMoveTest, AnImageIsRefusedWithItsReason) {
  ASSERT_TRUE(Connect());
  const std::string image = moves_.Extract(moved_);
  std::string damaged = image;
  damaged[image.size() / 2] ^= 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Insert(damaged)));
  ConnectConfig other = where_;
  ++other.local_port;
  const auto insert = [&](const ConnectConfig& where) {
    return next_->Insert(moves_, moved_, qpn_, where, image);
  };
  EXPECT_THAT(std::string(insert(other).message()),
              HasSubstr("belongs to another connection"));
  EXPECT_EQ(next_->connections().size(), 0u);
  EXPECT_EQ(next_->network().iwarp_qps().size(), 0u);
  ASSERT_TRUE(insert(where_).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(
      next_->Insert(*next_, moved_, qpn_, where_, image)));
}

TEST_P(IwarpMoveTest, AQueuePairWithoutAConnectionMovesToo) {
  qpn_ = moved_.qp->qpn();
  const std::string image = moves_.Extract(moved_);
  ASSERT_TRUE(Insert(image).ok());
  EXPECT_EQ(moved_.qp->core_state(), QpState::kInit);
  next_->Modify(moved_, QpState::kErr);
  const std::string failed = next_->Extract(moved_);
  ASSERT_TRUE(next_->Insert(*next_, moved_, qpn_, where_, failed).ok());
  EXPECT_EQ(moved_.qp->state(), QpState::kErr);
  ASSERT_TRUE(moved_.qp->wants_recv_doorbell());
  ASSERT_TRUE(next_->PostReceive(
      moved_, {.wr_id = 9, .sges = {moves_.Sge(kTarget, 8)}}));
  ASSERT_TRUE(RunUntil([&] { return !next_->done.empty(); }));
  EXPECT_EQ(next_->done[0].status, URNIC_WC_WR_FLUSH_ERR);
}

INSTANTIATE_TEST_SUITE_P(
    Ends, IwarpMoveTest,
    ::testing::Values(Move{"active", true}, Move{"passive", false},
                      Move{"lossy", false,
                           "loss=1%,delay=50us,reorder=5%:300us"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace urnic
