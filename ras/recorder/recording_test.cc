// What is built and written is read again, whatever happened meanwhile.

#include "ras/recorder/recording.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "ras/recorder/format.h"
#include "ras/recorder/recording_builder.h"
#include "ras/recorder/recording_file.h"
#include "ras/recorder/recordings.h"

namespace urnic {
namespace {

const RecordingOwner kOwner = {
    .pid = 17, .program = "a_program_with_a_long_name", .port = "urnic0"};

class RecordingTest : public ::testing::Test {
 protected:
  RecordingTest() {
    auto file = RecordingFile::Create(path_, kOwner, recording::kHalfBytesMin);
    EXPECT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }
  ~RecordingTest() override { unlink(path_.c_str()); }

  int Write() {
    return file_->Write(builder_.Finish({.number = file_->next(),
                                         .at_ns = 1000,
                                         .bytes = 0,
                                         .crc32c = 0,
                                         .took_us = 5}));
  }
  void Record(const std::string& text) {
    builder_.Begin();
    EXPECT_TRUE(builder_.BeginAnswer("show qp"));
    EXPECT_TRUE(builder_.Append(text));
    EXPECT_EQ(Write(), 0);
  }
  std::string TextOf(const std::string& request) const {
    const auto read = ReadRecording(path_);
    if (!read.ok()) return std::string(read.status().message());
    const Recording::Answer* const answer = read->Find(request);
    return answer == nullptr ? "-" : answer->text;
  }
  void Overwrite(size_t at, const std::string& bytes) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }

  const std::string path_ =
      ::testing::TempDir() + "/urnic0-" + std::to_string(getpid()) + "-1.rec";
  RecordingBuilder builder_{recording::kHalfBytesMin};
  std::unique_ptr<RecordingFile> file_;
};

TEST_F(RecordingTest, TheLastRecordingIsRead) {
  EXPECT_EQ(TextOf("show qp"), "nothing has been recorded yet");
  for (const char* const text : {"one", "another", "a third"}) {
    Record(text);
    EXPECT_EQ(TextOf("show qp"), text);
  }
  const auto read = ReadRecording(path_);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->pid, 17u);
  EXPECT_EQ(read->program, "a_program_with_");
  EXPECT_EQ(read->port, "urnic0");
  EXPECT_EQ(read->at_ns, 1000);
  EXPECT_EQ(read->took_us, 5u);
  EXPECT_EQ(TextOf("show mr"), "-");
}

TEST_F(RecordingTest, OnlyItsOwnerMayReadIt) {
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(static_cast<size_t>(info.st_size),
            recording::kHeaderBytes + 2 * recording::kHalfBytesMin);
  // All of it is there from the start.
  EXPECT_GE(static_cast<size_t>(info.st_blocks) * 512,
            static_cast<size_t>(info.st_size));
}

TEST_F(RecordingTest, TheProgramDiesWhileItWrites) {
  Record("one");
  Record("two");
  builder_.Begin();
  EXPECT_TRUE(builder_.BeginAnswer("show qp"));
  EXPECT_TRUE(builder_.Append("three"));
  file_.reset();
  EXPECT_EQ(TextOf("show qp"), "two");
  // The half that would have been replaced is damaged, too.
  Overwrite(recording::kHeaderBytes + recording::kHalfBytesMin, "half of it");
  EXPECT_EQ(TextOf("show qp"), "two");
}

TEST_F(RecordingTest, WhatFindsNoRoomIsMarked) {
  builder_.Begin();
  EXPECT_TRUE(builder_.BeginAnswer("show qp"));
  EXPECT_TRUE(builder_.Append("first"));
  EXPECT_FALSE(builder_.Append(std::string(recording::kHalfBytesMin, 'x')));
  EXPECT_TRUE(builder_.BeginAnswer("show mr"));
  EXPECT_TRUE(builder_.Append("small"));
  EXPECT_EQ(Write(), 0);
  const auto read = ReadRecording(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Find("show qp")->text, "first");
  EXPECT_TRUE(read->Find("show qp")->is_cut);
  EXPECT_EQ(read->Find("show mr")->text, "small");
  EXPECT_FALSE(read->Find("show mr")->is_cut);
  EXPECT_FALSE(
      builder_.BeginAnswer(std::string(recording::kHalfBytesMin, 'x')));
}

TEST_F(RecordingTest, ATruncatedFileIsRepaired) {
  Record("one");
  ASSERT_EQ(truncate(path_.c_str(), 0), 0);
  EXPECT_EQ(TextOf("show qp"), "this is not a recording of an RNIC");
  Record("two");
  Record("three");
  EXPECT_EQ(TextOf("show qp"), "three");
}

TEST_F(RecordingTest, AFullDiskLeavesTheLastRecording) {
  Record("one");
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = recording::kHeaderBytes;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  builder_.Begin();
  EXPECT_TRUE(builder_.BeginAnswer("show qp"));
  EXPECT_EQ(Write(), EFBIG);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(TextOf("show qp"), "one");
}

TEST_F(RecordingTest, DamageIsFound) {
  Record("one");
  const size_t half = recording::kHeaderBytes + recording::kHalfBytesMin;
  Overwrite(half + sizeof(recording::HalfHeader) + 4, "!");
  EXPECT_EQ(TextOf("show qp"),
            "the recording is damaged: its checksum is wrong");
}

TEST_F(RecordingTest, EveryFlippedBitOfAHeaderIsFound) {
  Record("one");
  std::ifstream file(path_, std::ios::binary);
  std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_TRUE(ParseRecording(whole).ok());
  const auto flip_each = [&](size_t begin, size_t bytes) {
    for (size_t bit = begin * 8; bit != (begin + bytes) * 8; ++bit) {
      const auto mask = static_cast<char>(1 << bit % 8);
      whole[bit / 8] ^= mask;
      EXPECT_FALSE(ParseRecording(whole).ok()) << "bit " << bit;
      whole[bit / 8] ^= mask;
    }
  };
  flip_each(0, offsetof(recording::FileHeader, crc32c) + sizeof(uint32_t));
  flip_each(recording::kHeaderBytes + recording::kHalfBytesMin,
            sizeof(recording::HalfHeader));
}

TEST_F(RecordingTest, OtherVersionsAndOtherFilesAreNamed) {
  Record("one");
  Overwrite(sizeof(recording::kMagic), std::string("\1\0\0\0", 4));
  EXPECT_EQ(TextOf("show qp"),
            "this is a recording of version 1; this urnic reads version 2");
  Overwrite(0, "#!/bin/sh");
  EXPECT_EQ(TextOf("show qp"), "this is not a recording of an RNIC");
  EXPECT_EQ(ReadRecording(path_ + ".gone").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(ReadRecording("/dev/null").ok());
  EXPECT_FALSE(ReadRecording("/").ok());
}

TEST_F(RecordingTest, EveryLengthOfAFileIsRead) {
  Record("one");
  std::ifstream file(path_, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_TRUE(ParseRecording(whole).ok());
  for (size_t bytes = 0; bytes < 200; ++bytes)
    EXPECT_FALSE(ParseRecording(whole.substr(0, bytes)).ok());
}

TEST_F(RecordingTest, ALivingProgramHoldsItsFile) {
  const auto ended = [&] {
    std::vector<bool> all;
    for (const RecordingName& name : ListRecordings(::testing::TempDir())) {
      if (name.path == path_) all.push_back(name.ended);
    }
    return all;
  };
  EXPECT_EQ(ended(), std::vector<bool>{false});
  file_.reset();
  EXPECT_EQ(ended(), std::vector<bool>{true});
}

TEST_F(RecordingTest, AFileThatExistsIsNotTouched) {
  const auto again =
      RecordingFile::Create(path_, kOwner, recording::kHalfBytesMin);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kInternal);
  Record("one");
  EXPECT_EQ(TextOf("show qp"), "one");
}

}  // namespace
}  // namespace urnic
