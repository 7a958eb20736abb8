// The snapshot interface with real threads, for TSan, which cannot follow the
// fibers of task_views_test.cc.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "transport/rud/task_views.h"

namespace urnic::rud {
namespace {

// Frees memory as soon as the snapshot allows it.
TEST(TaskViewsRaceTest, MemoryIsGivenBackUnderRunningTasks) {
  TaskViews<std::atomic> views;
  std::atomic<int*> memory = new int(1);
  std::atomic<bool> stop = false;
  std::vector<std::thread> tasks;
  for (uint32_t number = 0; number < 3; ++number) {
    tasks.emplace_back([&, number] {
      const Task task = {&views, number};
      for (int64_t sum = 0; !stop;) {
        const Task::Use use(task);
        const int* const at = memory.load();
        if (at != nullptr) sum += *at;
      }
    });
  }
  for (int i = 0; i < 2000; ++i) {
    int* const old = memory.exchange(i % 2 == 0 ? nullptr : new int(i));
    views.TakeSnapshot();
    while (views.ReadSnapshot() != 0) std::this_thread::yield();
    delete old;
  }
  stop = true;
  for (std::thread& task : tasks) task.join();
  delete memory.load();
}

}  // namespace
}  // namespace urnic::rud
