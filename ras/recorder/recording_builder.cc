#include "ras/recorder/recording_builder.h"

#include <cstring>

namespace urnic {

using recording::AnswerHeader;
using recording::FileHeader;
using recording::HalfHeader;

AnswerHeader RecordingBuilder::ReadHeader() const {
  AnswerHeader header;
  std::memcpy(&header, &half_[answer_at_], sizeof(header));
  return header;
}

void RecordingBuilder::WriteHeader(const AnswerHeader& header) {
  std::memcpy(&half_[answer_at_], &header, sizeof(header));
}

bool RecordingBuilder::BeginAnswer(std::string_view request) {
  if (!HasRoom(sizeof(AnswerHeader) + request.size())) return false;
  answer_at_ = half_.size();
  half_.resize(half_.size() + sizeof(AnswerHeader));
  WriteHeader({.request_bytes = static_cast<uint32_t>(request.size()),
               .is_cut = 0,
               .text_bytes = 0});
  half_ += request;
  return true;
}

bool RecordingBuilder::Append(std::string_view part) {
  AnswerHeader header = ReadHeader();
  const bool fits = HasRoom(part.size());
  if (fits) {
    header.text_bytes += part.size();
    half_ += part;
  } else {
    header.is_cut = 1;
  }
  WriteHeader(header);
  return fits;
}

std::string_view RecordingBuilder::Finish(HalfHeader header) {
  const std::string_view answers =
      std::string_view(half_).substr(sizeof(header));
  header.bytes = answers.size();
  header.crc32c = recording::ChecksumOf(header, answers);
  std::memcpy(half_.data(), &header, sizeof(header));
  return half_;
}

FileHeader MakeFileHeader(const RecordingOwner& owner, size_t half_bytes,
                          uint64_t recorded) {
  FileHeader header = {};
  std::memcpy(header.magic, recording::kMagic, sizeof(header.magic));
  header.version = recording::kVersion;
  header.pid = owner.pid;
  header.half_bytes = half_bytes;
  owner.program.copy(header.program, sizeof(header.program) - 1);
  owner.port.copy(header.port, sizeof(header.port) - 1);
  header.recorded = recorded;
  header.crc32c = recording::ChecksumOf(header);
  return header;
}

}  // namespace urnic
