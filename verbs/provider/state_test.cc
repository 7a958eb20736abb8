// What `urnic state` finds in a program: queue pairs in any state, made and
// used through libibverbs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <span>
#include <string>
#include <vector>

#include "transport/work/image.h"
#include "verbs/cli/qp_image.h"
#include "verbs/cli/rnic_process.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A line for each queue pair, in the order of their making.
std::vector<std::string> Lines() {
  const auto rnic = FindOneRnic("urnic0", std::to_string(getpid()));
  EXPECT_TRUE(rnic.ok()) << rnic.status();
  const auto answer = AskRnic(*rnic, "state");
  EXPECT_TRUE(answer.ok()) << answer.status();
  std::vector<std::string> lines;
  std::span<const uint8_t> rest(
      reinterpret_cast<const uint8_t*>(answer->data()), answer->size());
  while (!rest.empty()) {
    const size_t bytes = ImageLength(rest);
    if (bytes == 0 || bytes > rest.size()) {
      ADD_FAILURE() << "no image";
      break;
    }
    const auto view = ViewQpImage(rest.first(bytes));
    EXPECT_TRUE(view.ok()) << view.status();
    if (view.ok()) lines.push_back(view->line);
    rest = rest.subspan(bytes);
  }
  return lines;
}

TEST(StateTest, ShowsQueuePairsInAnyState) {
  OpenDevice device;
  EXPECT_THAT(Lines(), ElementsAre());
  PairOptions unreliable;
  unreliable.type = IBV_QPT_UC;
  End a(device, {});
  End b(device, unreliable);
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr(" RC  RESET "), HasSubstr(" UC  RESET ")));
  ASSERT_EQ(a.ToInit(), 0);
  ASSERT_EQ(b.ToInit(), 0);
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr(" RC  INIT "), HasSubstr(" UC  INIT ")));
  a.set_peer(a);
  ASSERT_EQ(a.ToRtr(a.qp()->qp_num), 0);
  ASSERT_EQ(a.ToRts(), 0);
  ASSERT_EQ(b.To(IBV_QPS_ERR), 0);
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr(" RC  RTS "), HasSubstr(" UC  ERR ")));
}

}  // namespace
}  // namespace urnic
