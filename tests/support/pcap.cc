#include "tests/support/pcap.h"

#include <cstring>
#include <fstream>
#include <iterator>

namespace urnic::testing {
namespace {

constexpr uint32_t kMagicMicroseconds = 0xa1b2c3d4;
constexpr uint32_t kMagicNanoseconds = 0xa1b23c4d;
constexpr uint32_t kLinkTypeEthernet = 1;

struct FileHeader {
  uint32_t magic = kMagicMicroseconds;
  uint16_t major = 2;
  uint16_t minor = 4;
  uint32_t zone = 0;
  uint32_t accuracy = 0;
  uint32_t max_bytes = 262144;
  uint32_t link_type = kLinkTypeEthernet;
};
static_assert(sizeof(FileHeader) == 24);

struct RecordHeader {
  uint32_t seconds = 0;
  uint32_t fraction = 0;
  uint32_t captured_bytes = 0;
  uint32_t frame_bytes = 0;
};
static_assert(sizeof(RecordHeader) == 16);

template <typename H>
bool Take(const std::string& bytes, size_t& at, H& out) {
  if (bytes.size() - at < sizeof(H)) return false;
  std::memcpy(&out, bytes.data() + at, sizeof(H));
  at += sizeof(H);
  return true;
}

}  // namespace

PcapFile ReadPcap(const std::string& path) {
  PcapFile result;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  size_t at = 0;
  FileHeader header;
  if (!file.is_open() || !Take(bytes, at, header)) {
    result.error = path + ": cannot be read, or is not a capture";
    return result;
  }
  const bool swapped =
      header.magic != kMagicMicroseconds && header.magic != kMagicNanoseconds;
  const auto host = [swapped](uint32_t v) {
    return swapped ? __builtin_bswap32(v) : v;
  };
  if (host(header.magic) != kMagicMicroseconds &&
      host(header.magic) != kMagicNanoseconds) {
    result.error = path + ": not a pcap file";
    return result;
  }
  if (host(header.link_type) != kLinkTypeEthernet) {
    result.error = path + ": not an Ethernet capture";
    return result;
  }
  RecordHeader record;
  while (Take(bytes, at, record)) {
    const uint32_t captured = host(record.captured_bytes);
    if (captured != host(record.frame_bytes) || captured > bytes.size() - at) {
      result.error = path + ": a frame is cut short";
      return result;
    }
    const auto* first = reinterpret_cast<const uint8_t*>(bytes.data()) + at;
    result.frames.emplace_back(first, first + captured);
    at += captured;
  }
  if (at != bytes.size()) result.error = path + ": ends within a record";
  return result;
}

bool WritePcap(const std::string& path,
               const std::vector<std::vector<uint8_t>>& frames) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const auto write = [&file](const void* data, size_t bytes) {
    file.write(static_cast<const char*>(data),
               static_cast<std::streamsize>(bytes));
  };
  const FileHeader header;
  write(&header, sizeof(header));
  uint32_t microseconds = 0;
  for (const std::vector<uint8_t>& frame : frames) {
    RecordHeader record;
    record.seconds = microseconds / 1000000;
    record.fraction = microseconds++ % 1000000;
    record.captured_bytes = static_cast<uint32_t>(frame.size());
    record.frame_bytes = record.captured_bytes;
    write(&record, sizeof(record));
    write(frame.data(), frame.size());
  }
  file.flush();
  return file.good();
}

}  // namespace urnic::testing
