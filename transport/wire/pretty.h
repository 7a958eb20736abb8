#pragma once

// Packets as one line of text each, for test failures, traces and tools. Not
// for the packet path: it allocates.

#include <cstdint>
#include <span>
#include <string>

#include "transport/wire/roce_packet.h"
#include "transport/wire/tcp.h"

namespace urnic::wire {

// From the BTH on: "RC WRITE_ONLY qp 0x11 psn 100 ackreq va 0x7f.. rkey 0x..
// dmalen 64 len 64". Flags and headers appear only where they are present or
// unusual; `len` is the payload without padding, AETH syndromes are decoded
// ("ack credits 31", "rnr timer 14", "nak sequence"). REQUIRES: ParseRoce()
// accepted the packet.
std::string Pretty(const RocePacket& packet);

// From the TCP header on: "TCP 38906 > 7174 SYN ACK seq 7 ack 8 win 64240 mss
// 1460 sackok ts 5 4 shift 7 len 0". `ts` is followed by value and echo; `len`
// is the payload.
std::string Pretty(const TcpSegment& segment);

// A whole frame: "10.0.0.1 > 10.0.0.2 RC ACK ..", "10.0.0.1 > 10.0.0.2 TCP ..",
// "arp 10.0.0.1 asks for 10.0.0.2", or the verdict's name, as in "drop
// BadIpChecksum". Appends "bad icrc" or "bad checksum" if that is so. Accepts
// any bytes.
std::string PrettyFrame(std::span<const uint8_t> frame);

// An MPA request or reply with its private data: "mpa request rev 2 crc ird 1
// ord 1 p2p rtr-write private 0". `private` is what is left for programs.
// Accepts any bytes.
std::string PrettyMpaFrame(std::span<const uint8_t> frame);

// A DDP segment: "WRITE last stag 0x3 to 0x7f00 len 64", "SEND last queue 0 msn
// 1 mo 0 len 40", and the fields of read requests, atomics and Terminate.
// `len` is what follows the DDP header. Accepts any bytes.
std::string PrettyUlpdu(std::span<const uint8_t> ulpdu);

}  // namespace urnic::wire
