// In a user and a mount namespace of its own, with its own /run and /tmp.

#include "verbs/cli/leftovers.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ras/recorder/recording_builder.h"
#include "ras/recorder/recording_file.h"
#include "ras/recorder/recordings.h"
#include "verbs/libc/owner_dir.h"
#include "verbs/preload/run_dir.h"

namespace urnic {
namespace {

bool g_have_namespace = false;

// A path in /tmp.
std::string Tmp(const std::string& name) { return "/tmp" + ("/" + name); }

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  return file.good();
}

bool EnterNamespace() {
  const std::string uid = std::to_string(getuid());
  const std::string gid = std::to_string(getgid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  WriteFile("/proc/self/setgroups", "deny");
  if (!WriteFile("/proc/self/uid_map", "0 " + uid + " 1") ||
      !WriteFile("/proc/self/gid_map", "0 " + gid + " 1")) {
    return false;
  }
  unsetenv("XDG_RUNTIME_DIR");
  unsetenv("TMPDIR");
  return std::ranges::all_of(
      std::vector{"/run", "/tmp", "/dev/shm"}, [](const char* place) {
        return mount("none", place, "tmpfs", 0, nullptr) == 0;
      });
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Runs `body` in a process that is killed afterwards. Returns its pid.
pid_t Killed(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  return child;
}

std::string MakeRunDirectory() {
  char path[256];
  EXPECT_EQ(urnic_run_dir_make(path, sizeof(path)), 0);
  return path;
}

// Those of one kind.
std::vector<LeftOver> Only(const LeftOvers& all, const std::string& what) {
  std::vector<LeftOver> chosen;
  for (const LeftOver& left : all.list)
    if (left.what == what) chosen.push_back(left);
  return chosen;
}

class LeftOversTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!g_have_namespace) GTEST_SKIP() << "user namespaces are not allowed";
    ASSERT_TRUE(CleanLeftOvers({}).list.empty()) << "of an earlier test";
  }
  // Both the list before and what was removed are `wanted` alone.
  static void ExpectListedAndRemoved(const std::string& what,
                                     const std::string& path,
                                     CleanOptions options) {
    for (const bool remove : {false, true}) {
      SCOPED_TRACE(remove ? "removed" : "listed");
      options.remove = remove;
      const auto left = Only(CleanLeftOvers(options), what);
      ASSERT_EQ(left.size(), 1u);
      EXPECT_EQ(left[0].path, path);
      EXPECT_EQ(left[0].error, "");
      EXPECT_EQ(Exists(path), !remove);
    }
    EXPECT_TRUE(Only(CleanLeftOvers(options), what).empty());
  }
};

TEST_F(LeftOversTest, TheDirectoryOfAKilledProgramNamesIt) {
  const std::string own = MakeRunDirectory();
  const pid_t pid = Killed([] { (void)MakeRunDirectory(); });
  const auto left = CleanLeftOvers({}).list;
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].pid, static_cast<uint64_t>(pid));
  EXPECT_EQ(left[0].program, "leftovers_test");
  ExpectListedAndRemoved("run-directory", left[0].path, {});
  EXPECT_TRUE(Exists(own)) << "this process lives";
  urnic_run_dir_remove(own.c_str());
}

TEST_F(LeftOversTest, APidThatIsUsedAgainIsAnotherProgram) {
  const std::string own = MakeRunDirectory();
  const size_t dash = own.rfind('-');
  const std::string earlier =
      own.substr(0, dash + 1) +
      std::to_string(std::stoull(own.substr(dash + 1)) - 1);
  ASSERT_EQ(mkdir(earlier.c_str(), 0755), 0);
  ExpectListedAndRemoved("run-directory", earlier, {});
  EXPECT_TRUE(Exists(own));
  urnic_run_dir_remove(own.c_str());
}

TEST_F(LeftOversTest, NothingIsRemovedOfWhatMayBeInUse) {
  // Of another pid namespace; with a name that no program makes; a file.
  const std::string kept[] = {Tmp("urnic-1-1-1"), Tmp("urnic-1-2"),
                              Tmp("urnic-demo-x"), Tmp("urnic-01-1-1")};
  for (const std::string& path : kept) ASSERT_EQ(mkdir(path.c_str(), 0755), 0);
  EXPECT_TRUE(CleanLeftOvers({.remove = true}).list.empty());
  for (const std::string& path : kept) EXPECT_EQ(rmdir(path.c_str()), 0);
}

TEST_F(LeftOversTest, ALinkInADirectoryIsNotFollowed) {
  const std::string folder = Tmp("folder");
  const std::string file = folder + "/file";
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  ASSERT_TRUE(WriteFile(file, "text"));
  Killed([&] {
    const std::string own = MakeRunDirectory();
    (void)!symlink(file.c_str(), (own + "/a").c_str());
    (void)!symlink(folder.c_str(), (own + "/b").c_str());
  });
  EXPECT_EQ(CleanLeftOvers({.remove = true}).list.size(), 1u);
  EXPECT_TRUE(CleanLeftOvers({}).list.empty());
  EXPECT_EQ(unlink(file.c_str()), 0);
  EXPECT_EQ(rmdir(folder.c_str()), 0);
}

TEST_F(LeftOversTest, TheNextProgramRemovesTheSameDirectories) {
  Killed([] { (void)MakeRunDirectory(); });
  EXPECT_EQ(CleanLeftOvers({}).list.size(), 1u);
  urnic_run_dir_sweep(/*all_users=*/0, nullptr, nullptr);
  EXPECT_TRUE(CleanLeftOvers({}).list.empty());
}

TEST_F(LeftOversTest, ADirectoryNamesItsProgram) {
  const std::string own = MakeRunDirectory();
  char program[256];
  urnic_run_dir_program(own.c_str(), program, sizeof(program));
  EXPECT_TRUE(std::string(program).ends_with("/leftovers_test")) << program;
  urnic_run_dir_remove(own.c_str());
  urnic_run_dir_program(own.c_str(), program, sizeof(program));
  EXPECT_STREQ(program, "");
}

// Programs start while others die and the directories are cleaned.
TEST_F(LeftOversTest, AProgramThatStartsMeanwhileDoesNotLoseItsDirectory) {
  const pid_t cleaner = fork();
  if (cleaner == 0) {
    while (true) (void)CleanLeftOvers({.remove = true, .recordings = true});
  }
  const std::string recordings = RecordingsDirectory(/*make=*/true);
  int lost = 0;
  for (int i = 0; i != 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const std::string own = MakeRunDirectory();
      const std::string path =
          recordings + "/" + RecordingFileName("urnic0", getpid(), 1);
      const auto file = RecordingFile::Create(
          path, {.pid = 1, .program = "program", .port = "urnic0"},
          recording::kHalfBytesMin);
      sched_yield();
      _exit(Exists(own) && file.ok() && Exists(path) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    lost += status != 0;
  }
  EXPECT_EQ(lost, 0);
  kill(cleaner, SIGKILL);
  waitpid(cleaner, nullptr, 0);
  (void)CleanLeftOvers({.remove = true, .recordings = true});
}

TEST_F(LeftOversTest, TheSocketOfAKilledServerIsRemovedAndNotThatOfALiveOne) {
  char directory[64];
  ASSERT_EQ(urnic_owner_dir(directory, sizeof(directory), 1), 0);
  const std::string path =
      std::string(directory) + "/" URNIC_OWNER_MEMIF_SOCKET;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_TRUE(CleanLeftOvers({.remove = true}).list.empty());
  close(fd);
  ExpectListedAndRemoved("socket", path, {});
}

TEST_F(LeftOversTest, RecordingsAreKeptUnlessTheyAreEmpty) {
  const std::string directory = RecordingsDirectory(/*make=*/true);
  const auto create = [&](const char* port, bool is_empty) {
    auto file =
        RecordingFile::Create(directory + "/" + RecordingFileName(port, 17, 1),
                              {.pid = 17, .program = "program", .port = port},
                              recording::kHalfBytesMin);
    EXPECT_TRUE(file.ok()) << file.status();
    if (is_empty) return *std::move(file);
    RecordingBuilder builder(recording::kHalfBytesMin);
    builder.Begin();
    EXPECT_EQ((*file)->Write(builder.Finish({.number = (*file)->next(),
                                             .at_ns = 1000,
                                             .bytes = 0,
                                             .crc32c = 0,
                                             .took_us = 5})),
              0);
    return *std::move(file);
  };
  const auto live = create("live", /*is_empty=*/false);
  const auto live_empty = create("liveempty", /*is_empty=*/true);
  create("dead", /*is_empty=*/false).reset();
  create("deadempty", /*is_empty=*/true).reset();
  const LeftOvers all = CleanLeftOvers({});
  EXPECT_EQ(all.recordings_kept, 1u);
  ExpectListedAndRemoved("recording", directory + "/deadempty-17-1.rec", {});
  const auto left = CleanLeftOvers({.recordings = true}).list;
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].pid, 17u);
  EXPECT_EQ(left[0].program, "program");
  EXPECT_EQ(left[0].bytes,
            recording::kHeaderBytes + 2 * recording::kHalfBytesMin);
  ExpectListedAndRemoved("recording", directory + "/dead-17-1.rec",
                         {.recordings = true});
  for (const char* const port : {"live", "liveempty"}) {
    const std::string path = directory + "/" + RecordingFileName(port, 17, 1);
    EXPECT_EQ(unlink(path.c_str()), 0) << path;
  }
}

TEST_F(LeftOversTest, TheDirectoryOfAKilledDemoIsRemoved) {
  const pid_t pid = Killed([] {});
  const std::string path = Tmp("urnic-demo-" + std::to_string(pid) + "-x");
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  ASSERT_TRUE(WriteFile(path + "/port.sock", ""));
  ExpectListedAndRemoved("demo", path, {});
  const std::string own = Tmp("urnic-demo-" + std::to_string(getpid()) + "-x");
  ASSERT_EQ(mkdir(own.c_str(), 0700), 0);
  EXPECT_TRUE(CleanLeftOvers({.remove = true}).list.empty());
  EXPECT_EQ(rmdir(own.c_str()), 0);
}

}  // namespace

void PrepareNamespace() { g_have_namespace = EnterNamespace(); }

}  // namespace urnic

int main(int argc, char** argv) {
  urnic::PrepareNamespace();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
