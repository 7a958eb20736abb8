#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "verbs/preload/testing/preloaded.h"

namespace urnic {
namespace {

constexpr char kPath[] = "/dev/infiniband/rdma_cm";

// A provider whose command "take" takes an event, and "refuse" fails. "lose"
// replaces the program's descriptor by a directory with a raw system call, just
// before the command waits for an event. "part" closes it in the same place.
struct File {
  void* node = nullptr;
  int program_fd = -1;
  std::mutex mutex;
  int events = 0;
  std::vector<std::string> commands;
};
std::atomic<int> open_files{0};
std::atomic<bool> refuse_open{false};
std::atomic<File*> last_file{nullptr};

void* Open(void* node) {
  if (refuse_open) {
    errno = EIO;
    return nullptr;
  }
  ++open_files;
  auto* file = new File;
  file->node = node;
  last_file = file;
  return file;
}

int Write(void* pointer, const void* command, size_t size) {
  auto* file = static_cast<File*>(pointer);
  const std::string text(static_cast<const char*>(command), size);
  std::lock_guard lock(file->mutex);
  file->commands.push_back(text);
  if (text == "refuse") return -ENOSYS;
  if (text == "lose") {
    const int directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    syscall(SYS_dup3, directory, file->program_fd, O_CLOEXEC);
    close(directory);
    PreloadApi().rdma_cm_set_ready(file->node, 1);
    return -EAGAIN;
  }
  if (text == "part") {
    close(file->program_fd);
    return -EAGAIN;
  }
  if (text != "take") return 0;
  const bool got = file->events > 0;
  if (got) --file->events;
  PreloadApi().rdma_cm_set_ready(
      file->node, file->events > 0 ? URNIC_RDMA_CM_OLD_EVENTS : 0);
  return got ? 0 : -EAGAIN;
}

void Close(void* pointer) {
  delete static_cast<File*>(pointer);
  --open_files;
}

constexpr urnic_rdma_cm_device kDevice = {Open, Write, Close};

void Add(File* file, int events) {
  std::lock_guard lock(file->mutex);
  file->events += events;
  PreloadApi().rdma_cm_set_ready(file->node, file->events > 0);
}

ssize_t Say(int fd, const std::string& text) {
  return write(fd, text.data(), text.size());
}

bool Readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

int CountOpenFds() {
  int count = 0;
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  for (const auto& entry : all) count += entry.is_symlink();
  return count;
}

// Must be the first test: all later ones have a provider.
TEST(RdmaCmNodeTest, CannotBeOpenedWithoutAProvider) {
  struct stat st;
  ASSERT_EQ(stat(kPath, &st), 0);
  EXPECT_TRUE(S_ISCHR(st.st_mode));
  EXPECT_EQ(major(st.st_rdev), 10u);
  EXPECT_EQ(access(kPath, R_OK | W_OK), 0);
  EXPECT_EQ(open(kPath, O_RDWR), -1);
  EXPECT_EQ(errno, ENODEV);
  ASSERT_EQ(PreloadApi().set_rdma_cm_device(&kDevice), 0);
  EXPECT_EQ(PreloadApi().set_rdma_cm_device(&kDevice), -EBUSY);
}

class OpenNodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fd_ = open(kPath, O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd_, 0);
    file_ = last_file;
  }
  void TearDown() override {
    if (fd_ >= 0) close(fd_);
    EXPECT_EQ(open_files, 0);
  }
  int fd_ = -1;
  File* file_ = nullptr;
};

// A program may close its channel while a thread is about to wait there, and
// open another file, which gets the same number.
TEST_F(OpenNodeTest, DoesNotWaitForAnotherFileOfTheSameNumber) {
  file_->program_fd = fd_;
  EXPECT_EQ(Say(fd_, "lose"), -1);
  EXPECT_EQ(errno, EBADF) << "EISDIR: it was";
  syscall(SYS_close, fd_);
  // The next node with this number releases the lost one.
  EXPECT_EQ(open(kPath, O_RDWR | O_CLOEXEC), fd_);
}

// As at the end of rping: the kernel lets the thread wait on.
TEST_F(OpenNodeTest, WaitsOnIfTheProgramClosesTheChannelInTheMeantime) {
  file_->program_fd = fd_;
  std::atomic<bool> returned{false};
  std::thread waiter([&] {
    Say(fd_, "part");
    returned = true;
  });
  while (open_files != 0) std::this_thread::yield();
  pthread_cancel(waiter.native_handle());
  waiter.join();
  EXPECT_FALSE(returned);
  fd_ = -1;
}

TEST_F(OpenNodeTest, LooksAsLibrdmacmExpects) {
  struct stat st;
  ASSERT_EQ(fstat(fd_, &st), 0);
  EXPECT_TRUE(S_ISCHR(st.st_mode));
  EXPECT_EQ(fcntl(fd_, F_GETFD), FD_CLOEXEC);
  std::ifstream abi("/sys/class/misc/rdma_cm/abi_version");
  int version = 0;
  abi >> version;
  EXPECT_EQ(version, 4);
  EXPECT_EQ(PreloadApi().rdma_cm_file(fd_), file_);
  EXPECT_EQ(PreloadApi().rdma_cm_file(0), nullptr);
}

TEST_F(OpenNodeTest, PassesCommandsOnAndReturnsTheirErrno) {
  EXPECT_EQ(Say(fd_, "hello"), 5);
  EXPECT_EQ(Say(fd_, "refuse"), -1);
  EXPECT_EQ(errno, ENOSYS);
  EXPECT_EQ(file_->commands, (std::vector<std::string>{"hello", "refuse"}));
}

TEST_F(OpenNodeTest, IsReadableExactlyWhileEventsWait) {
  EXPECT_FALSE(Readable(fd_));
  Add(file_, 2);
  EXPECT_TRUE(Readable(fd_));
  EXPECT_EQ(Say(fd_, "take"), 4);
  EXPECT_TRUE(Readable(fd_));
  EXPECT_EQ(Say(fd_, "take"), 4);
  EXPECT_FALSE(Readable(fd_));
  Add(file_, 1);
  Add(file_, -1);
  EXPECT_FALSE(Readable(fd_)) << "the event was taken back";
}

TEST_F(OpenNodeTest, WakesAnEdgeTriggeredWaiterForEveryEvent) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{EPOLLIN | EPOLLET, {.fd = fd_}};
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, fd_, &event), 0);
  for (int i = 0; i < 3; ++i) {
    Add(file_, 1);
    EXPECT_EQ(epoll_wait(epoll, &event, 1, 0), 1);
    EXPECT_EQ(Say(fd_, "take"), 4);
  }
  // The same while other events wait.
  for (int i = 0; i < 40; ++i) {
    Add(file_, 1);
    EXPECT_EQ(epoll_wait(epoll, &event, 1, 0), 1) << i;
  }
  for (int i = 0; i < 40; ++i) EXPECT_EQ(Say(fd_, "take"), 4);
  EXPECT_FALSE(Readable(fd_));
  close(epoll);
}

TEST_F(OpenNodeTest, IsReadableExactlyWhileMoreEventsWaitThanItHasBytes) {
  for (int i = 0; i < 5000; ++i) Add(file_, 1);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(Readable(fd_)) << i;
    ASSERT_EQ(Say(fd_, "take"), 4);
  }
  EXPECT_FALSE(Readable(fd_));
}

// What a pipe holds is counted, not asked for.
TEST_F(OpenNodeTest, IsReadableWhileEventsWaitAfterThreadsHaveWaited) {
  for (int round = 0; round < 200; ++round) {
    std::thread waiter([&] { EXPECT_EQ(Say(fd_, "take"), 4); });
    if (round % 2 == 0) std::this_thread::yield();
    for (int i = 0; i < 3; ++i) Add(file_, 1);
    waiter.join();
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(Readable(fd_)) << round;
      ASSERT_EQ(Say(fd_, "take"), 4);
    }
    ASSERT_FALSE(Readable(fd_)) << round;
  }
}

TEST_F(OpenNodeTest, DoesNotWaitWithNonBlock) {
  ASSERT_EQ(fcntl(fd_, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(Say(fd_, "take"), -1);
  EXPECT_EQ(errno, EAGAIN);
  Add(file_, 1);
  EXPECT_EQ(Say(fd_, "take"), 4);
}

TEST_F(OpenNodeTest, ManyThreadsThatWaitGetOneEventEach) {
  std::atomic<int> got{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { got += Say(fd_, "take") == 4; });
  for (int i = 0; i < 8; ++i) Add(file_, 1);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(got, 8);
  EXPECT_EQ(file_->events, 0);
  EXPECT_FALSE(Readable(fd_));
}

void Nothing(int) {}

TEST_F(OpenNodeTest, ASignalInterruptsAWaitUnlessItsHandlerRestarts) {
  struct sigaction action = {};
  action.sa_handler = Nothing;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGUSR2, &action, nullptr), 0);
  std::atomic<int> error{-1};
  std::thread waiter([&] { error = Say(fd_, "take") == 4 ? 0 : errno; });
  // A signal that arrives before the thread waits interrupts nothing.
  while (error < 0) {
    pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  waiter.join();
  EXPECT_EQ(error, EINTR);
  error = -1;
  std::thread patient([&] { error = Say(fd_, "take") == 4 ? 0 : errno; });
  for (int i = 0; i < 100; ++i) {
    pthread_kill(patient.native_handle(), SIGUSR2);
    std::this_thread::yield();
  }
  Add(file_, 1);
  patient.join();
  EXPECT_EQ(error, 0);
}

TEST_F(OpenNodeTest, AThreadThatWaitsCanBeCancelled) {
  std::thread waiter([&] { Say(fd_, "take"); });
  const pthread_t id = waiter.native_handle();
  pthread_cancel(id);
  waiter.join();
  // TearDown() sees that the file was closed.
}

// A waiting thread holds a descriptor: one more means that it has begun to
// wait.
TEST_F(OpenNodeTest, ACancelledThreadLeavesNoDescriptor) {
  const int before = CountOpenFds();
  for (int i = 0; i < 3; ++i) {
    std::thread waiter([&] { Say(fd_, "take"); });
    while (CountOpenFds() == before) std::this_thread::yield();
    pthread_cancel(waiter.native_handle());
    waiter.join();
    ASSERT_EQ(CountOpenFds(), before);
  }
}

TEST_F(OpenNodeTest, ACancelledThreadLeavesTheEventToOthers) {
  const int before = CountOpenFds();
  for (int i = 0; i < 1000; ++i) {
    std::thread waiter([&] { Say(fd_, "take"); });
    while (CountOpenFds() == before) std::this_thread::yield();
    Add(file_, 1);
    pthread_cancel(waiter.native_handle());
    waiter.join();
    ASSERT_EQ(Readable(fd_), file_->events == 1) << "round " << i;
    if (file_->events == 1) {
      ASSERT_EQ(Say(fd_, "take"), 4);
    }
  }
}

TEST_F(OpenNodeTest, ClosingReleasesTheFile) {
  Add(file_, 1);
  close(fd_);
  EXPECT_EQ(open_files, 0);
  EXPECT_EQ(Say(fd_, "hello"), -1);
  EXPECT_EQ(errno, EBADF);
  fd_ = -1;
}

TEST_F(OpenNodeTest, AReplacedDescriptorIsNoLongerOurs) {
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(dup2(null, fd_), fd_);
  close(null);
  EXPECT_EQ(Say(fd_, "hello"), 5) << "goes to /dev/null";
  EXPECT_EQ(file_->commands.size(), 0u);
  close(fd_);
  // When the number is used again, the preload notices that the old file is
  // gone.
  const int again = open(kPath, O_RDWR | O_CLOEXEC);
  ASSERT_EQ(again, fd_);
  EXPECT_EQ(open_files, 1);
}

TEST_F(OpenNodeTest, ADuplicateIsRefused) {
  const int copy = dup(fd_);
  EXPECT_EQ(Say(copy, "hello"), -1);
  EXPECT_EQ(errno, EBADF);
  close(copy);
  EXPECT_EQ(Say(fd_, "hello"), 5);
}

TEST_F(OpenNodeTest, AForkedChildDoesNotOwnIt) {
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = Say(fd_, "hello") == -1 && errno == EBADF;
    close(fd_);
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Say(fd_, "hello"), 5) << "and still is the parent's";
}

TEST_F(OpenNodeTest, AProviderMayRefuse) {
  refuse_open = true;
  EXPECT_EQ(open(kPath, O_RDWR), -1);
  EXPECT_EQ(errno, EIO);
  refuse_open = false;
}

}  // namespace
}  // namespace urnic
