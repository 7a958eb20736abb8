#pragma once

// Single segments that belong to no connection: SYN-ACKs, resets, and
// acknowledgements of TIME-WAIT. If there is no room for one, it is lost: the
// peer repeats what it answers. Token holder only.

#include <cstdint>
#include <span>

#include "datapath/engine/tcp_framer.h"
#include "ras/metrics/counters.h"
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
    tx_->Send(TcpFramer::Write(path, {.fields = fields}, frame.data(),
                               [](std::span<uint8_t>) { return true; }),
              path.loopback);
  }

  // Answers a segment by a RST, unless it is one.
  //= RFC 9293 3.10.7.1: a segment for a connection that does not exist is
  //= answered by a RST, which the sender of the segment will find acceptable
  void Reset(const net::Path& path, const wire::TcpSegment& segment) {
    if (segment.Has(wire::kTcpRst)) return;
    wire::TcpFields fields;
    fields.src_port = segment.dst_port;
    fields.dst_port = segment.src_port;
    fields.flags = wire::kTcpRst;
    if (segment.Has(wire::kTcpAck)) {
      fields.seq = segment.ack;
    } else {
      fields.flags |= wire::kTcpAck;
      fields.ack = segment.end();
    }
    Send(path, fields);
  }

 private:
  net::FrameSink* const tx_;
  IwarpCounters* const counters_;
};

}  // namespace urnic
