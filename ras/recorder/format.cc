#include "ras/recorder/format.h"

#include <isa-l/crc.h>

namespace urnic::recording {
namespace {

uint32_t Crc32c(const void* data, size_t bytes, uint32_t before) {
  // It does not write to it.
  auto* const from = static_cast<unsigned char*>(const_cast<void*>(data));
  return crc32_iscsi(from, static_cast<int>(bytes), before);
}

}  // namespace

uint32_t ChecksumOf(const FileHeader& header) {
  return Crc32c(&header, offsetof(FileHeader, crc32c), 0);
}

uint32_t ChecksumOf(HalfHeader header, std::string_view answers) {
  header.crc32c = 0;
  return Crc32c(answers.data(), answers.size(),
                Crc32c(&header, sizeof(header), 0));
}

}  // namespace urnic::recording
