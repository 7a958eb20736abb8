// The small parts of an endpoint.

#include <gtest/gtest.h>

#include <vector>

#include "transport/iwarp/qp/early_fpdus.h"
#include "transport/iwarp/qp/kept_fpdus.h"
#include "transport/iwarp/qp/ulpdu_reader.h"

namespace urnic::iwarp {
namespace {

using Bytes = std::vector<uint8_t>;

// A ULPDU of 3 bytes of headers and segments of 4, 0 and 5 bytes, whose memory
// has the addresses as values.
class ReaderTest : public ::testing::Test {
 public:
  bool operator()(uint64_t address, std::span<uint8_t> to) {
    for (uint8_t& byte : to) byte = static_cast<uint8_t>(address++);
    return address <= mapped_until_;
  }

 protected:
  ReaderTest() {
    slot_.headers = headers_;
    slot_.header_bytes = sizeof(headers_);
    slot_.segment_count = 3;
    slot_.segments[0] = {10, 4};
    slot_.segments[1] = {99, 0};
    slot_.segments[2] = {20, 5};
    slot_.payload_bytes = 9;
  }

  uint8_t headers_[3] = {1, 2, 3};
  TxSlot slot_;
  uint64_t mapped_until_ = 1000;
};

TEST_F(ReaderTest, AnyDivisionGivesTheSameBytes) {
  const Bytes all = {1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 24};
  for (size_t from = 0; from < all.size(); ++from) {
    for (size_t step = 1; step <= all.size(); ++step) {
      UlpduReader reader(slot_, *this);
      Bytes got;
      for (size_t at = from; at < all.size(); at += step) {
        Bytes part(std::min(step, all.size() - at));
        reader(static_cast<uint32_t>(at), part);
        got.insert(got.end(), part.begin(), part.end());
      }
      EXPECT_EQ(got, Bytes(all.begin() + static_cast<long>(from), all.end()));
      EXPECT_TRUE(reader.ok());
    }
  }
}

TEST_F(ReaderTest, MemoryThatIsNotMappedIsReported) {
  mapped_until_ = 22;
  UlpduReader reader(slot_, *this);
  Bytes part(9);
  reader(0, part);
  EXPECT_TRUE(reader.ok());
  reader(9, std::span(part).first(3));
  EXPECT_FALSE(reader.ok());
}

TEST_F(ReaderTest, TheCrcIsThatOfTheBytesWhoeverComputesIt) {
  const Bytes all = {1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 24};
  Bytes part(all.size());
  wire::Crc32c crc;
  UlpduReader reader(slot_, *this);
  reader(0, part, crc);
  EXPECT_EQ(part, all);
  EXPECT_EQ(crc.value(), wire::Crc32c().Add(all).value());
  // Memory that computes it itself.
  int hashed = 0;
  struct Hashing {
    ReaderTest& test;
    int& hashed;
    bool operator()(uint64_t address, std::span<uint8_t> to) {
      return test(address, to);
    }
    bool operator()(uint64_t address, std::span<uint8_t> to,
                    wire::Crc32c& crc) {
      ++hashed;
      const bool ok = test(address, to);
      crc.Add(to);
      return ok;
    }
  } memory{*this, hashed};
  UlpduReader hashing(slot_, memory);
  wire::Crc32c same;
  hashing(0, part, same);
  EXPECT_EQ(part, all);
  EXPECT_EQ(same.value(), crc.value());
  EXPECT_EQ(hashed, 2);
}

class OnePlaceEach final : public FpduKeeper {
 public:
  OnePlaceEach() { free_ = 10; }
  uint32_t Take(uint32_t bytes, std::span<uint8_t>& memory) override {
    --free_;
    memory = std::span(memory_).first(bytes);
    return next_++;
  }
  void Release(uint32_t number) override {
    ++free_;
    released.push_back(number);
  }
  std::vector<uint32_t> released;

 private:
  uint8_t memory_[100] = {};
  uint32_t next_ = 7;
};

TEST(KeptFpdusTest, AreFoundByTheirPlaceInTheStream) {
  OnePlaceEach keeper;
  KeptFpdu records[4];
  KeptFpdus kept(&keeper, records);
  // Sequence numbers wrap.
  const SeqNum begin(0xffffff80);
  for (uint32_t i = 0; i < 4; ++i) kept.Add(begin + 100 * i, 50 + i, 20);
  EXPECT_FALSE(kept.has_room());
  for (uint32_t i = 0; i < 4; ++i) {
    KeptFpdu* found = kept.Find(begin + 100 * i);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->source, 50 + i);
    EXPECT_EQ(kept.Find(begin + (100 * i + 1)), nullptr);
  }
  EXPECT_EQ(kept.Find(begin + UINT32_MAX), nullptr);
}

TEST(KeptFpdusTest, AreReleasedInOrderOrAtTheEnd) {
  OnePlaceEach keeper;
  {
    KeptFpdu records[4];
    KeptFpdus kept(&keeper, records);
    for (uint32_t i = 0; i < 3; ++i) kept.Add(SeqNum(100 * i), 50 + i, 20);
    kept.OnAcked(9);  // of one that is not kept
    EXPECT_TRUE(keeper.released.empty());
    kept.OnAcked(50);
    EXPECT_EQ(keeper.released, std::vector<uint32_t>{7});
    kept.Add(SeqNum(400), 60, 20);
    kept.Add(SeqNum(500), 61, 20);
    EXPECT_FALSE(kept.has_room());
  }
  EXPECT_EQ(keeper.free(), 10u);
}

TEST(KeptFpdusTest, WithoutRecordsNothingIsKept) {
  OnePlaceEach keeper;
  KeptFpdus kept(&keeper, {});
  EXPECT_FALSE(kept.has_room());
}

class EarlyFpdusTest : public ::testing::Test {
 protected:
  // An FPDU that ends here; its payload has as many bytes.
  void Insert(EarlyFpdus& early, uint32_t end) {
    const std::span<const uint8_t> header(header_);
    early.Insert(
        kStart + end,
        {.header_bytes = 3, .payload_bytes = end, .pieces = {&header, 1}});
  }
  // The FPDUs up to here.
  static std::vector<uint32_t> Take(EarlyFpdus& early, uint32_t until) {
    std::vector<uint32_t> taken;
    while (const EarlyFpdu* fpdu = early.First(kStart + until)) {
      EXPECT_EQ(Bytes(fpdu->header().begin(), fpdu->header().end()),
                (Bytes{1, 2, 3}));
      taken.push_back(fpdu->payload_bytes);
      early.PopFirst();
    }
    return taken;
  }

  static constexpr SeqNum kStart{0xffffff00};  // the numbers wrap
  const uint8_t header_[3] = {1, 2, 3};
  EarlyPool pool_{6};
};

TEST_F(EarlyFpdusTest, TheyComeBackInTheOrderOfTheStream) {
  EarlyFpdus early(&pool_);
  for (const uint32_t end : {300u, 100u, 400u, 200u, 350u}) Insert(early, end);
  EXPECT_EQ(Take(early, 99), std::vector<uint32_t>());
  EXPECT_EQ(Take(early, 350), (std::vector<uint32_t>{100, 200, 300, 350}));
  Insert(early, 500);
  Insert(early, 450);
  EXPECT_EQ(Take(early, 1000), (std::vector<uint32_t>{400, 450, 500}));
  EXPECT_EQ(pool_.free_count(), 6u);
}

TEST_F(EarlyFpdusTest, ConnectionsShareThePoolAndReturnTheirRecords) {
  EarlyFpdus early(&pool_);
  {
    EarlyFpdus other(&pool_);
    for (const uint32_t end : {100u, 200u, 300u, 400u}) Insert(other, end);
    EXPECT_TRUE(early.HasRoom(2));
    EXPECT_FALSE(early.HasRoom(3));
  }
  EXPECT_TRUE(early.HasRoom(6));
  EXPECT_FALSE(EarlyFpdus(nullptr).HasRoom(1));
}

TEST(EarlyFpdusLimitTest, AConnectionDoesNotTakeAllRecords) {
  EarlyPool pool(2 * EarlyFpdus::kMax);
  EarlyFpdus early(&pool);
  EXPECT_TRUE(early.HasRoom(EarlyFpdus::kMax));
  EXPECT_FALSE(early.HasRoom(EarlyFpdus::kMax + 1));
}

}  // namespace
}  // namespace urnic::iwarp
