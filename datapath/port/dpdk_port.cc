#include "datapath/port/dpdk_port.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/guest/eal.h"
#include "datapath/guest/tsan_frames.h"
#include "datapath/memory/packet_pool.h"

namespace urnic {

DpdkPort::DpdkPort(PortClaim claim, const PortSpec& spec,
                   const wire::MacAddress& mac, rte_mempool* pool,
                   unsigned lcore, std::shared_ptr<PortKeeper> keeper,
                   PortWarning warn_of_long)
    : gate_(keeper->gate()),
      frame_bytes_max_(spec.frame_bytes_max),
      interface_(spec.name),
      warn_of_long_(std::move(warn_of_long)),
      keeper_(std::move(keeper)),
      claim_(std::move(claim)) {
  mtu_ = spec.mtu;
  mac_ = mac;
  pool_ = pool;
  lcore_ = lcore;
  ordinal_ = claim_.ordinal();
}

DpdkPort::~DpdkPort() {
  // In a forked child the keeper and its device are the parent's.
  if (!EalUsable()) return;
  if (keeper_->Stop()) ReturnPool(pool_);
  FreeLcore(lcore_);
}

uint16_t DpdkPort::Receive(rte_mbuf** out, uint16_t max) {
  const DeviceGate::View device = gate_.Enter();
  uint16_t n = 0;
  if (__builtin_expect(device.present(), 1)) {
    n = rte_eth_rx_burst(device.id(), 0, out, max);
  }
  gate_.Leave();
  FramesEnterThread(out, n);
  if (__builtin_expect(!device.open(), 0)) {
    rte_pktmbuf_free_bulk(out, n);
    rx_barred_.Add(n);
    return 0;
  }
  bool fit = true;
  for (uint16_t i = 0; i < n; ++i) {
    fit &= out[i]->nb_segs == 1 && out[i]->pkt_len <= frame_bytes_max_;
  }
  return __builtin_expect(fit, 1) ? n : DropUnfit(out, n);
}

// A peer may send what the agreed MTU does not allow; the kernel's own
// segmentation offload does so routinely.
uint16_t DpdkPort::DropUnfit(rte_mbuf** frames, uint16_t count) {
  uint16_t kept = 0;
  for (uint16_t i = 0; i < count; ++i) {
    if (frames[i]->nb_segs == 1 && frames[i]->pkt_len <= frame_bytes_max_) {
      frames[kept++] = frames[i];
    } else {
      if (warn_of_long_ != nullptr) WarnOfLong(*frames[i]);
      rte_pktmbuf_free(frames[i]);
    }
  }
  rx_truncated_.Add(count - kept);
  return kept;
}

void DpdkPort::WarnOfLong(const rte_mbuf& frame) {
  if (frame.data_len < mac_.bytes.size() ||
      std::memcmp(rte_pktmbuf_mtod(&frame, const uint8_t*), mac_.bytes.data(),
                  mac_.bytes.size()) != 0) {
    return;
  }
  std::exchange(warn_of_long_, nullptr)(absl::StrCat(
      "frames longer than the MTU are dropped. If the kernel merges what it "
      "receives: ethtool -K ",
      interface_,
      " gro off lro off. If the peer is a kernel, there: ethtool -K INTERFACE "
      "tx off tso off gso off"));
}

uint16_t DpdkPort::Transmit(rte_mbuf** packets, uint16_t count) {
  const DeviceGate::View device = gate_.Enter();
  if (__builtin_expect(device.carrier(), 1)) {
    FramesLeaveThread(packets, count);
    const uint16_t n = rte_eth_tx_burst(device.id(), 0, packets, count);
    gate_.Leave();
    return n;
  }
  gate_.Leave();
  rte_pktmbuf_free_bulk(packets, count);
  tx_dropped_down_.Add(count);
  return count;
}

PortCounters DpdkPort::counters() const {
  PortCounters sum;
  keeper_->AddCounters(sum);
  sum.rx_truncated += rx_truncated_.value();
  sum.rx_missed += rx_barred_.value();
  sum.tx_dropped_down += tx_dropped_down_.value();
  return sum;
}

}  // namespace urnic
