#include "verbs/cli/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace urnic {
namespace {

namespace fs = std::filesystem;

class ReplacedFileTest : public testing::Test {
 protected:
  ReplacedFileTest() { fs::create_directory(directory_); }
  ~ReplacedFileTest() override { fs::remove_all(directory_); }

  static std::string ContentOf(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Fill(const fs::path& path, const std::string& content) {
    std::ofstream(path) << content;
  }
  size_t FileCount() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(directory_), {}));
  }

  const fs::path directory_ =
      fs::path(testing::TempDir()) / ("replaced-" + std::to_string(getpid()));
  const fs::path path_ = directory_ / "file";
};

TEST_F(ReplacedFileTest, ReplacesAFileAsAWhole) {
  Fill(path_, "old");
  {
    ReplacedFile file(path_, 0600);
    ASSERT_TRUE(file.Open().ok());
    EXPECT_EQ(ContentOf(path_), "old");
    EXPECT_TRUE(file.Write("new").ok());
  }
  EXPECT_EQ(ContentOf(path_), "new");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0600));
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(ReplacedFileTest, WithoutContentTheOldFileStays) {
  Fill(path_, "old");
  {
    ReplacedFile file(path_, 0644);
    ASSERT_TRUE(file.Open().ok());
  }
  EXPECT_EQ(ContentOf(path_), "old");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(ReplacedFileTest, WhatIsNoFileIsRefusedAndStays) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  for (const fs::path& path : {path_, directory_, fs::path("/dev/full")}) {
    const absl::Status status = ReplacedFile(path, 0644).Open();
    EXPECT_EQ(status.message(),
              path.string() + ": it exists, and is not a file");
  }
  EXPECT_TRUE(fs::is_fifo(path_));
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(ReplacedFileTest, ASymbolicLinkIsRefusedAndStays) {
  const fs::path link = directory_ / "link";
  Fill(path_, "old");
  for (const fs::path& target : {path_, directory_ / "nothing"}) {
    fs::create_symlink(target, link);
    const absl::Status status = ReplacedFile(link, 0644).Open();
    EXPECT_EQ(
        status.message(),
        link.string() + ": it is a symbolic link; name the file that it means");
    EXPECT_EQ(fs::read_symlink(link), target);
    fs::remove(link);
  }
  EXPECT_EQ(ContentOf(path_), "old");
}

TEST_F(ReplacedFileTest, AFailedWriteKeepsTheOldFile) {
  Fill(path_, "old");
  ReplacedFile file(path_, 0644);
  ASSERT_TRUE(file.Open().ok());
  // As a full disk, but with EFBIG.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {.rlim_cur = 4, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status status = file.Write("longer than that");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_EQ(ContentOf(path_), "old");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(ReplacedFileTest, ALeftoverWithOurPidIsNoObstacle) {
  Fill(path_.string() + "." + std::to_string(getpid()) + ".part", "left");
  ReplacedFile file(path_, 0644);
  ASSERT_TRUE(file.Open().ok());
  EXPECT_TRUE(file.Write("new").ok());
  EXPECT_EQ(ContentOf(path_), "new");
  EXPECT_EQ(FileCount(), 1u);
}

TEST(WriteAllTest, SaysWhyItCannot) {
  const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(WriteAll(fd, "text"), ENOSPC);
  EXPECT_EQ(WriteAll(fd, ""), 0);
  close(fd);
}

}  // namespace
}  // namespace urnic
