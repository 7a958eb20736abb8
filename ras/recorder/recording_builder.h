#pragma once

// Puts the answers of a program together, as one half of a recording
// (ras/recorder/format.h).
//
//   builder.Begin();
//   builder.BeginAnswer("show qp");
//   builder.Append(lines);  // as often as needed, as long as it is true
//   builder.Finish(..);
//
// Thread: one at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ras/recorder/format.h"

namespace urnic {

class RecordingBuilder {
 public:
  // `most`: bytes of a half, with its header; at most kHalfBytesMax.
  explicit RecordingBuilder(size_t most) : most_(most) {}

  void Begin() { half_.assign(sizeof(recording::HalfHeader), '\0'); }
  // Ends the answer before. False: it found no room.
  bool BeginAnswer(std::string_view request);
  // A part of the answer that is useful without those that follow. False: it
  // found no room; the answer is marked as cut.
  bool Append(std::string_view part);
  // The half, until the next Begin(). The header's `bytes` and `crc32c` are set
  // here.
  std::string_view Finish(recording::HalfHeader header);

 private:
  recording::AnswerHeader ReadHeader() const;
  void WriteHeader(const recording::AnswerHeader& header);
  bool HasRoom(size_t bytes) const { return bytes <= most_ - half_.size(); }

  const size_t most_;
  std::string half_;      // its memory is kept
  size_t answer_at_ = 0;  // the last answer
};

// The header of a file: FileHeader without its padding. `recorded`: of the last
// recording in it; 0: none.
struct RecordingOwner {
  uint32_t pid = 0;
  std::string program;
  std::string port;
};
recording::FileHeader MakeFileHeader(const RecordingOwner& owner,
                                     size_t half_bytes, uint64_t recorded);

}  // namespace urnic
