#pragma once

// A recording: what a program told of its RNIC, in a file that outlives it.
//
//   FileHeader, padded to a page
//   half 0: HalfHeader, answers
//   half 1: the same
//
// A recording is written into one half while the other still has the one before
// it. Then the header is written with its number, whose lowest bit says which
// half it is in. So a program that is killed at any moment leaves a whole
// recording.
//
// An answer is an AnswerHeader, the request and the text. Numbers are those of
// the machine: a recording is read where it was made, or on one like it.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace urnic::recording {

inline constexpr char kMagic[8] = {'u', 'R', 'N', 'I', 'C', 'r', 'e', 'c'};
inline constexpr uint32_t kVersion = 2;
inline constexpr size_t kHeaderBytes = 4096;
inline constexpr size_t kHalfBytesMin = 65536;
inline constexpr size_t kHalfBytesMax = size_t{1} << 30;

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t pid;
  uint64_t half_bytes;  // with its header
  char program[16];     // terminated, as in /proc/PID/comm
  char port[16];        // terminated: the port's first device
  uint64_t recorded;    // the last that is whole; 0: none
  uint32_t crc32c;      // of all before
};

struct HalfHeader {
  uint64_t number;   // of the recording, from 1
  int64_t at_ns;     // wall clock
  uint64_t bytes;    // of the answers
  uint32_t crc32c;   // of this header, with 0 here, and the answers
  uint32_t took_us;  // what it cost the program
};

struct AnswerHeader {
  uint32_t request_bytes;
  uint32_t is_cut;  // 1: there was no room for all of it
  uint64_t text_bytes;
};

uint32_t ChecksumOf(const FileHeader& header);
// `answers`: at most kHalfBytesMax.
uint32_t ChecksumOf(HalfHeader header, std::string_view answers);

}  // namespace urnic::recording
