#pragma once

// Takes the frames of the host core: ARP, neighbour discovery, IGMP, MLD, echo.

#include <cstddef>
#include <cstdint>
#include <span>

namespace urnic::net {

// Off the packet path, hence virtual. Called only from within a call of the
// core that was given the sink.
class FrameSink {
 public:
  // Room for one frame: an IP packet of the link's MTU after a tagged Ethernet
  // header. Empty: there is no room, and the message is not sent; the core
  // tries again later, or the peer asks again.
  virtual std::span<uint8_t> Frame() = 0;
  // Sends the first `bytes` of the last Frame(), or delivers them to ourselves.
  // REQUIRES: bytes > 0
  virtual void Send(size_t bytes, bool loopback) = 0;

 protected:
  ~FrameSink() = default;
};

}  // namespace urnic::net
