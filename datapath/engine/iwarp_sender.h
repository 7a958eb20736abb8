#pragma once

// Turns segments of iWARP connections into frames, for the port or for
// loopback. The counterpart of IwarpReceiver. Token holder only.

#include <rte_mbuf.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "datapath/engine/iwarp_connection.h"
#include "datapath/engine/tcp_framer.h"
#include "datapath/engine/transmit_queue.h"
#include "datapath/memory/address_space.h"
#include "datapath/port/tcp_checksum.h"
#include "ras/metrics/counters.h"
#include "transport/wire/mpa.h"

namespace urnic {

class IwarpSender {
 public:
  // All outlive the sender.
  IwarpSender(TransmitQueue* tx, AddressSpace* memory, EngineCounters* counters)
      : tx_(tx), memory_(memory), counters_(counters) {}
  IwarpSender(const IwarpSender&) = delete;
  IwarpSender& operator=(const IwarpSender&) = delete;

  // True if the flow uses loopback, which has no room now. The next iteration
  // makes room.
  bool IsBlocked(const Flow& flow) const {
    const net::Path* const path = flow.common_path();
    return path != nullptr && path->loopback && tx_->loop_room() == 0;
  }

  // Sends up to `room` segments; returns how many were made. The caller settles
  // the connection. `sink`: that of the burst. REQUIRES: room <=
  // tx->empty_frames(), and the port accepts that many.
  template <typename Sink>
  uint32_t Send(IwarpConnection& connection, Time now, uint32_t room,
                Sink& sink) {
    net::Path& path = connection.mutable_path();
    if (__builtin_expect(!path.IsCurrent(), 0)) path.Restamp();
    if (path.loopback) room = std::min(room, tx_->loop_room());
    const uint32_t count =
        connection.Transmit(now, std::span(slots_).first(room));
    const bool finishes =
        !path.loopback && count != 0 && tx_->finishes_tcp_checksums();
    for (uint32_t i = 0; i < count; ++i) {
      const bool asks = finishes && slots_[i].bytes >= kWorthAsking;
      SendOne(connection, path, slots_[i], asks, sink);
    }
    return count;
  }

 private:
  // Below this payload, computing the checksum costs less than the work of the
  // drivers that offload it.
  static constexpr uint32_t kWorthAsking = 512;

  // The program's memory, for IwarpConnection::WritePayload().
  struct Memory {
    bool operator()(uint64_t address, std::span<uint8_t> to) const {
      return space->Copy(to.data(), reinterpret_cast<const void*>(address),
                         to.size());
    }
    bool operator()(uint64_t address, std::span<uint8_t> to,
                    wire::Crc32c& crc) const {
      return space->CopyHashed(to.data(),
                               reinterpret_cast<const void*>(address),
                               to.size(), wire::kFoldingCrc32c, crc.running());
    }
    AddressSpace* space;
  };

  template <typename Sink>
  void SendOne(IwarpConnection& connection, const net::Path& path,
               const tcp::TcpSlot& slot, bool asks_for_checksum, Sink& sink) {
    rte_mbuf* const frame = tx_->PeekEmpty(0);
    const uint32_t bytes = TcpFramer::Write(
        path, slot, rte_pktmbuf_mtod(frame, uint8_t*), asks_for_checksum,
        [&](std::span<uint8_t> payload) {
          return connection.WritePayload(slot, payload, Memory{memory_});
        });
    // The payload cannot be read, so the connection has been aborted.
    if (bytes == 0) return;
    if (__builtin_expect(path.source_gone, 0)) {
      ++counters_->tx_source_gone;
      return;
    }
    if (__builtin_expect(slot.fields.window == 0, 0)) {
      const bool is_reset = slot.fields.Has(wire::kTcpRst);
      ++(is_reset ? counters_->iwarp.out_rsts : counters_->iwarp.zero_windows);
    }
    frame->data_len = static_cast<uint16_t>(bytes);
    frame->pkt_len = bytes;
    if (asks_for_checksum) {
      AskForTcpChecksum(frame, static_cast<uint32_t>(path.headers.ip_offset()),
                        static_cast<uint32_t>(path.headers.ip_end() -
                                              path.headers.ip_offset()),
                        path.headers.framing() == wire::Framing::kIpv6);
    }
    if constexpr (Sink::kTraces) sink.OnSent(connection.qp(), slot, *frame);
    (void)tx_->TakeEmpty();
    if (path.loopback) {
      tx_->PushToOurselves(frame);
    } else {
      tx_->Push(frame);
    }
  }

  TransmitQueue* const tx_;
  AddressSpace* const memory_;
  EngineCounters* const counters_;
  tcp::TcpSlot slots_[kBurstMax];
};

}  // namespace urnic
