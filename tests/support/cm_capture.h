#pragma once

// The MADs of a capture of Linux' connection manager.

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/pcap.h"
#include "transport/wire/frame.h"
#include "transport/wire/mad.h"
#include "transport/wire/roce_packet.h"

namespace urnic::testing {

struct CapturedMad {
  wire::Gid source;
  wire::Gid destination;
  std::array<uint8_t, wire::kMadBytes> bytes = {};

  uint16_t attribute() const {
    wire::MadHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    return header.attribute_id.value();
  }
  template <typename Message>
  const Message& As() const {
    static_assert(sizeof(Message) == wire::kMadBytes);
    return *reinterpret_cast<const Message*>(bytes.data());
  }
};

// The MADs to QP1, in order; empty if the file cannot be read.
inline std::vector<CapturedMad> ReadCmCapture(const std::string& name) {
  std::vector<CapturedMad> mads;
  const PcapFile file = ReadPcap("transport/wire/testdata/" + name + ".pcap");
  for (const auto& bytes : file.frames) {
    wire::FrameView frame;
    if (wire::ParseFrame(bytes.data(), bytes.size(), frame) !=
        RxVerdict::kAccept)
      continue;
    wire::RocePacket packet;
    if (wire::ParseRoce(frame.payload, frame.payload_bytes, packet) !=
        RxVerdict::kAccept) {
      continue;
    }
    if (packet.bth->dest_qp().value != 1) continue;
    CapturedMad mad;
    if (packet.payload_bytes != mad.bytes.size()) continue;
    mad.source = frame.src;
    mad.destination = frame.dst;
    std::memcpy(mad.bytes.data(), packet.payload, mad.bytes.size());
    mads.push_back(mad);
  }
  return mads;
}

}  // namespace urnic::testing
