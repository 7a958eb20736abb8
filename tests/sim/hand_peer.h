#pragma once

// A peer of an iWARP device whose segments are written by hand. It knows the
// numbers of its connections from the segments that it gets, and may use them
// or others.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/tcp_frame.h"
#include "transport/iwarp/mpa/reference_stream.h"
#include "transport/iwarp/mpa/setup_frame.h"
#include "transport/wire/frame.h"
#include "transport/wire/tcp.h"

namespace urnic::sim {

class HandPeer {
 public:
  static constexpr uint32_t kStreams = 4;
  static constexpr uint16_t kFirstPort = 3000;
  static constexpr uint16_t kHostPort = 7000;  // where the host listens

  struct Stream {
    uint16_t port = 0;       // ours
    uint16_t host_port = 0;  // the host's
    SeqNum next;             // the number of our next byte
    SeqNum expected;         // that of the host's
    uint32_t host_stamp = 0;
    bool timestamps = false;
    uint32_t msn[2] = {1, 1};  // of our next Send, and of our next request
  };

  // `send` is called for each of our frames.
  HandPeer(const wire::NeighborSelf& self, const wire::NeighborSelf& host,
           std::function<void(std::vector<uint8_t>)> send)
      : self_(self), host_(host), send_(std::move(send)) {
    for (uint32_t i = 0; i < kStreams; ++i) {
      streams_[i].port = static_cast<uint16_t>(kFirstPort + i);
      streams_[i].host_port = kHostPort;
      streams_[i].next = SeqNum(1000 * i);
    }
  }
  Stream& stream(uint32_t n) { return streams_[n % kStreams]; }
  const wire::NeighborSelf& self() const { return self_; }

  // A frame from the host: learns its numbers, and answers who asks for our
  // MAC.
  void OnFrame(const std::vector<uint8_t>& frame) {
    if (const auto words = testing::WordsOf(frame)) {
      if (words->info.kind == wire::NeighborKind::kSolicit &&
          words->info.asked == self_.gid) {
        send_(testing::AnswerFrame(self_, host_));  // not held back
      }
      return;
    }
    wire::FrameView view;
    wire::TcpSegment segment;
    if (wire::ParseFrame(frame.data(), frame.size(), view) != RxVerdict::kTcp ||
        wire::ParseTcp(view, false, segment) != RxVerdict::kAccept ||
        segment.dst_port < kFirstPort ||
        segment.dst_port >= kFirstPort + kStreams) {
      return;
    }
    Stream& of = stream(segment.dst_port - kFirstPort);
    of.host_port = segment.src_port;
    of.expected = segment.end();
    if (segment.options.timestamps) {
      of.host_stamp = segment.options.timestamps->value;
    }
  }

  // The fields of a segment that fits, without flags.
  static wire::TcpFields Fields(const Stream& of) {
    wire::TcpFields fields;
    fields.src_port = of.port;
    fields.dst_port = of.host_port;
    fields.seq = of.next;
    fields.ack = of.expected;
    fields.window = 60000;
    if (of.timestamps) {
      fields.options.timestamps = {of.next.value(), of.host_stamp};
    }
    return fields;
  }
  void Send(const wire::TcpFields& fields,
            std::span<const uint8_t> payload = {}) {
    Deliver(testing::TcpFrame({self_, host_}, fields, payload));
  }
  // The last frame again, perhaps with a damaged byte.
  void SendAgain(size_t at, uint8_t damage) {
    constexpr size_t kHeader = 14;
    if (last_.size() <= kHeader) return;
    last_[kHeader + at % (last_.size() - kHeader)] ^= damage;
    Deliver(last_);
  }
  // Sends what is held back, and holds the next frame back.
  void HoldNext() {
    hold_next_ = true;
    if (!held_.empty()) send_(std::exchange(held_, {}));
  }
  // A router's report about a segment of the host.
  void SendTooBig(const Stream& of, SeqNum quoted, uint32_t mtu) {
    testing::TooBigFields report;
    report.router_mac = self_.mac;
    report.mac = host_.mac;
    report.router = self_.gid;
    report.to = report.quoted_src = host_.gid;
    report.quoted_dst = self_.gid;
    report.mtu = mtu;
    report.segment = {wire::Be<uint16_t>(of.host_port),
                      wire::Be<uint16_t>(of.port),
                      wire::Be<uint32_t>(quoted.value())};
    Deliver(testing::TooBigFrame(report));
  }
  // The next bytes of the stream, and a FIN if `fin`.
  void SendBytes(Stream& of, std::span<const uint8_t> bytes, bool fin = false) {
    wire::TcpFields fields = Fields(of);
    fields.flags = wire::kTcpAck | (fin ? wire::kTcpFin : uint8_t{0});
    Send(fields, bytes);
    of.next = of.next + static_cast<uint32_t>(bytes.size()) + uint32_t{fin};
  }
  void SendSetup(Stream& of, const mpa::SetupFrame& frame) {
    std::array<uint8_t, mpa::kMaxSetupBytes> bytes;
    SendBytes(of, std::span(bytes).first(frame.Write(bytes)));
  }
  void SendFpdu(Stream& of, std::span<const uint8_t> ulpdu, bool crc) {
    mpa::testing::ReferenceStream stream(crc, /*markers=*/false);
    stream.AddFpdu(ulpdu);
    SendBytes(of, stream.bytes());
  }

 private:
  void Deliver(std::vector<uint8_t> frame) {
    last_ = frame;
    if (!std::exchange(hold_next_, false)) return send_(std::move(frame));
    held_ = std::move(frame);
  }

  const wire::NeighborSelf self_;
  const wire::NeighborSelf host_;
  const std::function<void(std::vector<uint8_t>)> send_;
  std::array<Stream, kStreams> streams_;
  std::vector<uint8_t> last_;
  std::vector<uint8_t> held_;
  bool hold_next_ = false;
};

}  // namespace urnic::sim
