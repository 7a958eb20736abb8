#include "datapath/port/frame_port.h"

#include <rte_mbuf.h>

#include <cstring>

namespace urnic {

FramePort::FramePort(const FramePortConfig& config) : rx_ring_(config.rx_ring) {
  mtu_ = config.mtu;
  mac_ = config.mac;
  pool_ = config.pool;
  lcore_ = config.lcore;
}

FramePort::~FramePort() {
  for (rte_mbuf* frame : rx_) rte_pktmbuf_free(frame);
}

uint16_t FramePort::Receive(rte_mbuf** out, uint16_t max) {
  uint16_t count = 0;
  for (; count < max && !rx_.empty(); ++count) {
    out[count] = rx_.front();
    rx_.pop_front();
  }
  return count;
}

uint16_t FramePort::Transmit(rte_mbuf** packets, uint16_t count) {
  uint16_t taken = 0;
  for (; taken < count; ++taken) {
    rte_mbuf* frame = packets[taken];
    if (!Send({rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len})) {
      break;
    }
    rte_pktmbuf_free(frame);
  }
  return taken;
}

bool FramePort::Deliver(std::span<const uint8_t> frame) {
  if (frame.size() > size_t{mtu_} + kL2HeaderBytesMax ||
      rx_.size() >= rx_ring_) {
    return false;
  }
  rte_mbuf* buffer = rte_pktmbuf_alloc(pool_);
  if (buffer == nullptr) return false;
  std::memcpy(rte_pktmbuf_mtod(buffer, uint8_t*), frame.data(), frame.size());
  buffer->data_len = static_cast<uint16_t>(frame.size());
  buffer->pkt_len = buffer->data_len;
  rx_.push_back(buffer);
  return true;
}

}  // namespace urnic
