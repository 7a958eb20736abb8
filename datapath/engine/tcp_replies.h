#pragma once

// Single segments that belong to no connection: SYN-ACKs, resets, and
// acknowledgements of TIME-WAIT. If there is no room for a reply, it is lost,
// and the peer repeats the segment. Token holder only.

#include <cstdint>
#include <span>

#include "datapath/engine/tcp_framer.h"
#include "ras/metrics/counters.h"
#include "transport/iwarp/tcp/connection.h"
#include "transport/net/frame_sink.h"
#include "transport/net/path.h"
#include "transport/wire/tcp.h"

namespace urnic {

class TcpReplies {
 public:
  // Both outlive this object.
  TcpReplies(net::FrameSink* tx, IwarpCounters* counters)
      : tx_(tx), counters_(counters) {}

  void Send(const net::Path& path, const wire::TcpFields& fields) {
    const std::span<uint8_t> frame = tx_->Frame();
    if (frame.size() < TcpFramer::kRoomForHeaders) return;
    if ((fields.flags & wire::kTcpRst) != 0) ++counters_->out_rsts;
    tx_->Send(TcpFramer::Write(path, {.fields = fields}, frame.data(), false,
                               [](std::span<uint8_t>) { return true; }),
              path.loopback);
  }

  // Answers a segment by a RST, unless the segment is a RST itself.
  void Reset(const net::Path& path, const wire::TcpSegment& segment) {
    if (const auto reset = tcp::ResetFor(segment)) Send(path, *reset);
  }

 private:
  net::FrameSink* const tx_;
  IwarpCounters* const counters_;
};

}  // namespace urnic
