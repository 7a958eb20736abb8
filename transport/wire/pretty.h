#pragma once

// Packets as one line of text each, for test failures, traces and tools. Not
// for the packet path: it allocates.

#include <cstdint>
#include <span>
#include <string>

#include "transport/wire/address.h"
#include "transport/wire/roce_packet.h"

namespace urnic::wire {

// "10.0.0.1" or "fe80::1".
std::string ToString(const Gid& gid);
// "02:00:00:00:00:01".
std::string ToString(const MacAddress& mac);

// From the BTH on: "RC WRITE_ONLY qp 0x11 psn 100 ackreq va 0x7f.. rkey 0x..
// dmalen 64 len 64". Flags and headers appear only where they are present or
// unusual; `len` is the payload without padding, AETH syndromes are decoded
// ("ack credits 31", "rnr timer 14", "nak sequence"). REQUIRES: ParseRoce()
// accepted the packet.
std::string Pretty(const RocePacket& packet);

// A whole frame: "10.0.0.1 > 10.0.0.2 RC ACK ..", "arp 10.0.0.1 asks for
// 10.0.0.2", or the verdict's name, as in "drop BadIpChecksum". Appends "bad
// icrc" if that is so. Accepts any bytes.
std::string PrettyFrame(std::span<const uint8_t> frame);

}  // namespace urnic::wire
