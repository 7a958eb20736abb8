#pragma once

// The MPA frames and FPDUs of a capture of TCP connections.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/pcap.h"

namespace urnic::testing {

// An MPA request, an MPA reply or an FPDU, as it is in the stream.
struct IwarpUnit {
  enum class Kind { kRequest, kReply, kFpdu };
  Kind kind = Kind::kFpdu;
  // The index of the TCP frame that completes the unit, among all frames.
  size_t frame = 0;
  // Connections count from 0, in the order of their first SYNs.
  size_t connection = 0;
  // Whether the connection's initiator sent it.
  bool from_initiator = false;
  // All of it: the MPA frame with its private data, or the FPDU from its length
  // field to its CRC.
  std::vector<uint8_t> bytes;

  // REQUIRES: an FPDU.
  std::vector<uint8_t> ulpdu() const;
};

struct IwarpCapture {
  // Empty on success. Otherwise what is wrong, with the number of the frame:
  // the file, a hole in a stream, or a stream that is not MPA without markers.
  std::string error;
  std::vector<IwarpUnit> units;
};

// Puts the payload of each direction in order and divides it into units.
// Retransmissions are skipped; TCP checksums are not looked at. Bytes of a unit
// that the capture does not complete are not returned.
IwarpCapture ReadIwarpCapture(const PcapFile& file);

}  // namespace urnic::testing
