#include "verbs/control/untold.h"

#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>

namespace urnic::control {
namespace {

constexpr size_t kMost = 16;

// Never destroyed: programs may call rdma_cm while they exit.
struct Untold {
  std::mutex mutex;
  std::deque<std::pair<ErrorCode, std::string>> list;
};
Untold& TheUntold() {
  static Untold* const untold = new Untold;
  return *untold;
}

}  // namespace

void KeepUntold(ErrorCode code, std::string_view text) {
  Untold& untold = TheUntold();
  std::lock_guard lock(untold.mutex);
  if (untold.list.size() == kMost) untold.list.pop_front();
  untold.list.emplace_back(code, text);
}

void TakeUntold(
    const std::function<void(ErrorCode code, const std::string& text)>& tell) {
  Untold& untold = TheUntold();
  std::deque<std::pair<ErrorCode, std::string>> taken;
  {
    std::lock_guard lock(untold.mutex);
    taken.swap(untold.list);
  }
  for (const auto& [code, text] : taken) tell(code, text);
}

}  // namespace urnic::control
