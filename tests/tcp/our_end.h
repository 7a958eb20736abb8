#pragma once

// Our end of the connection: a tcp::Connection that sends and receives a
// pattern, and frames around its segments.

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/tcp/pattern.h"
#include "transport/iwarp/tcp/connection.h"
#include "transport/iwarp/tcp/half_open.h"
#include "transport/wire/frame.h"

namespace urnic::testing {

// Frames are IP packets behind an Ethernet header without addresses.
inline constexpr size_t kLinkBytes = 14;
inline constexpr uint32_t kFrameBytes = 10000;
void WriteLink(std::span<uint8_t> frame);

// Copies of frames in custody.
class CopyKeeper final : public FrameKeeper {
 public:
  uint32_t Keep(const ReceivedFrame& frame, FrameHolder& holder) override;
  void Release(uint32_t number, FrameHolder& holder) override;
  // A frame in memory that Keep() only has to mark as used.
  ReceivedFrame Copy(std::span<const uint8_t> frame);

 private:
  struct Slot {
    std::vector<uint8_t> bytes;
    bool kept = false;
  };
  std::vector<std::unique_ptr<Slot>> slots_;
  size_t next_ = 0;
};

class OurEnd {
 public:
  static constexpr uint16_t kOurPort = 50000;

  struct Config {
    uint32_t local = 0;
    uint32_t remote = 0;
    // Connect to this port of `remote`; 0: listen on kOurPort.
    uint16_t remote_port = 0;
    bool cookies = false;  // the listener answers every SYN with a cookie
    uint32_t mtu = 1500;
    uint32_t window = 1 << 20;
    uint64_t send = 0;
    uint64_t receive = 0;
    uint64_t seed = 1;
  };
  OurEnd(const Config& config, Time now);

  void OnFrame(std::span<const uint8_t> frame, Time now);
  void OnTimer(Time now) {
    if (now >= connection_.deadline()) connection_.OnTimer(now);
    while (const auto repeat = half_open_.OnTimer(now)) {
      answers_.push_back(repeat->fields);
    }
  }
  // `pass(std::span<uint8_t> frame)` sends a frame.
  template <typename F>
  void Transmit(Time now, F&& pass);
  Time deadline() const {
    return std::min(connection_.deadline(), half_open_.NextDeadline());
  }
  bool has_work() const { return connection_.has_work() || !answers_.empty(); }

  // A router says that a packet, from this sequence number on, is too big.
  void OnTooBig(uint32_t mtu, SeqNum seq, Time now) {
    connection_.OnTooBig(mtu, seq, now);
  }
  // Bytes in both directions so far.
  uint64_t moved() const { return acked_ + received_; }

  bool done() const;
  bool ok() const;
  std::string Report() const;

  // For the connection.
  tcp::Chunk NextChunk(uint32_t max_bytes);
  void OnChunkAcked(uint64_t source);
  uint32_t OnBytes(SeqNum at, std::span<const uint8_t> bytes,
                   const ReceivedFrame& frame);

 private:
  std::span<uint8_t> Build(const tcp::TcpSlot& slot);
  tcp::ConnectionConfig TcpConfig(uint16_t remote_port) const;
  // A segment before there is a connection. True: it made one.
  bool Listen(const wire::TcpSegment& segment, Time now);

  const Config config_;
  const Pattern outgoing_;
  const Pattern incoming_;
  tcp::SegmentSlab segments_{1024};
  tcp::RangePool ranges_{4096};
  CopyKeeper keeper_;
  tcp::ChallengeBudget challenges_;
  tcp::HalfOpenTable half_open_;
  tcp::Connection connection_;
  std::vector<wire::TcpFields> answers_;  // of the listener, to be sent
  uint64_t cut_ = 0;                      // bytes in chunks so far
  uint64_t acked_ = 0;
  std::deque<tcp::Chunk> under_way_;
  uint64_t received_ = 0;
  bool wrong_ = false;
  uint16_t identification_ = 0;
  std::vector<uint8_t> frame_;
  std::vector<uint64_t> verdicts_;
};

template <typename F>
void OurEnd::Transmit(Time now, F&& pass) {
  tcp::TcpSlot slots[tcp::Connection::kMaxBurst];
  for (const wire::TcpFields& fields : answers_)
    pass(Build({.fields = fields}));
  answers_.clear();
  const uint32_t count = connection_.Transmit(now, slots, *this);
  for (const tcp::TcpSlot& slot : std::span(slots).first(count)) {
    pass(Build(slot));
  }
  const tcp::State state = connection_.state();
  if (cut_ == config_.send &&
      (state == tcp::State::kEstablished || state == tcp::State::kCloseWait)) {
    connection_.Close();
  }
}

}  // namespace urnic::testing
