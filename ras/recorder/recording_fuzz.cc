// Any file is a recording or is refused. The input is what follows the file's
// header; the checksums are made right, since otherwise no input would come
// past them.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "ras/recorder/format.h"
#include "ras/recorder/recording.h"
#include "transport/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace urnic;  // NOLINT: there is nothing else here
  const std::string_view input(reinterpret_cast<const char*>(data), bytes);
  (void)ParseRecording(input);

  recording::FileHeader header = {};
  std::memcpy(header.magic, recording::kMagic, sizeof(header.magic));
  header.version = recording::kVersion;
  header.half_bytes = recording::kHalfBytesMin;
  header.recorded = 2;
  header.crc32c = recording::ChecksumOf(header);
  recording::HalfHeader half = {};
  half.number = header.recorded;
  half.bytes = std::min(bytes, recording::kHalfBytesMin - sizeof(half));
  half.crc32c = recording::ChecksumOf(half, input.substr(0, half.bytes));
  std::string file(recording::kHeaderBytes + 2 * recording::kHalfBytesMin, 0);
  std::memcpy(file.data(), &header, sizeof(header));
  std::memcpy(&file[recording::kHeaderBytes], &half, sizeof(half));
  input.copy(&file[recording::kHeaderBytes + sizeof(half)], half.bytes);
  const auto read = ParseRecording(file);
  size_t sum = 0;
  if (read.ok()) {
    for (const Recording::Answer& answer : read->answers)
      sum += sizeof(recording::AnswerHeader) + answer.request.size() +
             answer.text.size();
    URNIC_CHECK(sum == half.bytes);
  }
  return 0;
}
