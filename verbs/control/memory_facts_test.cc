// The answers to `urnic show memory`, leaks that are reported when the port
// closes, and what the control calls allocate without the tracker.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "ras/facts/facts.h"
#include "verbs/control/address_handle.h"
#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/mr.h"
#include "verbs/control/mw.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp.h"
#include "verbs/control/srq.h"
#include "verbs/control/stat_facts.h"
#include "verbs/control/testing/loop_device.h"

namespace {

// The tracker takes its memory by aligned_alloc(), everything else comes here.
thread_local bool t_counts = false;
size_t g_allocations = 0;

}  // namespace

void* operator new(size_t bytes) {
  if (t_counts) ++g_allocations;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace urnic::control {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class MemoryFactsTest : public LoopDeviceTest {
 protected:
  MemoryFactsTest() { Open(); }
  void Open() {
    device_ = OpenDevice();
    pd_ = *Pd::Create(*device_);
    cq_ = *Cq::Create(*device_, {.entries = 10});
  }
  void Close() {
    cq_.reset();
    pd_.reset();
    device_.reset();
  }

  std::shared_ptr<Qp> MakeQp() {
    QpRequest request;
    request.send_cq = request.recv_cq = cq_.get();
    request.pd = pd_.get();
    request.caps = {.max_send_wr = 4, .max_recv_wr = 4};
    return *Qp::Create(*device_, request);
  }

  // The fact `name` of the line with that type; "-": there is none.
  std::string Of(const std::string& type, const std::string& name) {
    std::string lines;
    DescribeMemory(device_->open_nic(), lines);
    for (size_t at = 0; at < lines.size();) {
      const size_t end = lines.find('\n', at);
      const Facts facts = *ParseFacts(lines.substr(at, end - at));
      at = end + 1;
      if (*facts.Find("type") == type) return *facts.Find(name);
    }
    return "-";
  }

  // The cost of one more object, measured with `kMany`: bytes with the tracker,
  // and allocations without it.
  struct Cost {
    double tracked;
    double bypasses;
  };
  template <typename F>
  Cost CostOf(F&& make) {
    constexpr int kMany = 256;
    std::vector<decltype(make())> objects;
    objects.reserve(2 * kMany);
    // Tables grow in steps: these make room.
    for (int i = 0; i < kMany; ++i) objects.push_back(make());
    objects.resize(1);
    const size_t before = device_->memory()->footprint().bytes;
    g_allocations = 0;
    t_counts = true;
    for (int i = 1; i < kMany; ++i) objects.push_back(make());
    t_counts = false;
    const size_t after = device_->memory()->footprint().bytes;
    return {static_cast<double>(after - before) / (kMany - 1),
            static_cast<double>(g_allocations) / (kMany - 1)};
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Pd> pd_;
  std::unique_ptr<Cq> cq_;
};

TEST_F(MemoryFactsTest, EachTypeIsListedWithItsPlace) {
  const auto a = MakeQp();
  const auto b = MakeQp();
  EXPECT_EQ(Of("Qp", "count"), "2");
  EXPECT_GT(std::stoul(Of("Qp", "bytes")), 2 * sizeof(Qp));
  EXPECT_THAT(Of("Qp", "place"), HasSubstr("verbs/control/qp.cc:"));
  EXPECT_EQ(Of("Qp", "function"), "Create");
  EXPECT_EQ(Of("Qp", "alignment"), "4096");
  EXPECT_EQ(Of("Pd", "count"), "1");
  EXPECT_EQ(Of("queue", "alignment"), "64");
  EXPECT_EQ(Of("Mr", "count"), "-");
}

TEST_F(MemoryFactsTest, TheSumFallsWhenObjectsEnd) {
  const std::string before = Of("all", "bytes");
  { const auto qp = MakeQp(); }
  EXPECT_EQ(Of("all", "bytes"), before);
  EXPECT_GT(std::stoul(Of("all", "bytes-most")), std::stoul(before));
}

TEST_F(MemoryFactsTest, WhatIsNotGivenBackIsNamedWhenThePortCloses) {
  Close();
  const std::string path = ::testing::TempDir() + "/leaks";
  setenv("URNIC_LOG", ("json:" + path).c_str(), 1);
  Open();
  // Never freed; a pointer to it remains, for leak checkers.
  static auto* const leaked =
      new QueueMemory(*QueueMemory::Make(device_->memory(), 100));
  ASSERT_NE(leaked, nullptr);
  Close();
  unsetenv("URNIC_LOG");
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  unlink(path.c_str());
  EXPECT_THAT(lines, Contains(HasSubstr("URN1911")));
  EXPECT_THAT(lines,
              Contains(HasSubstr("1 of type queue with 100 bytes, made in "
                                 "verbs/control/memory_facts_test.cc:")));
}

// `urnic show memory` does not know these allocations, so they must not become
// more.
TEST_F(MemoryFactsTest, WhatBypassesTheTrackerIsKnown) {
  alignas(64) static char bytes[64];
  const auto mr = [&] {
    return *Mr::Register(*pd_, {.address = reinterpret_cast<uint64_t>(bytes),
                                .bytes = sizeof(bytes)});
  };
  const auto srq = [&] {
    return *Srq::Create(*pd_, {.max_wr = 8, .max_sge = 1});
  };
  struct Expected {
    const char* kind;
    Cost cost;
    double bypasses;
  };
  // Each has a node in the table of its device. A protection domain has another
  // in the set of numbers in use; a shared receive queue has the engine's end
  // of it; a queue pair the count of its owners, the elements of its receives,
  // and the recent requests of its responder.
  const Expected kinds[] = {
      {"pd", CostOf([&] { return *Pd::Create(*device_); }), 2},
      {"cq", CostOf([&] { return *Cq::Create(*device_, {.entries = 10}); }), 1},
      {"mr", CostOf(mr), 1},
      {"mw", CostOf([&] { return *Mw::Create(*pd_, Mw::Type::k2); }), 1},
      {"srq", CostOf(srq), 2},
      {"qp", CostOf([&] { return MakeQp(); }), 2},
  };
  for (const auto& [kind, cost, bypasses] : kinds) {
    EXPECT_GT(cost.tracked, 0) << kind;
    EXPECT_EQ(cost.bypasses, bypasses) << kind;
  }
}

}  // namespace
}  // namespace urnic::control
