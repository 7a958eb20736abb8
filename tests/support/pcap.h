#pragma once

// Capture files, read and written whole: for tests and the demo's check.

#include <cstdint>
#include <string>
#include <vector>

namespace urnic::testing {

struct PcapFile {
  // Empty on success, otherwise what failed.
  std::string error;
  std::vector<std::vector<uint8_t>> frames;
};

// Reads an Ethernet capture in the classic format (not pcapng), of either
// byte order, with micro- or nanoseconds. Frames that were cut short by the
// capture are an error: nothing can be compared with them.
PcapFile ReadPcap(const std::string& path);

// Writes frames one microsecond apart. False when the file cannot be written.
[[nodiscard]] bool WritePcap(const std::string& path,
                             const std::vector<std::vector<uint8_t>>& frames);

}  // namespace urnic::testing
