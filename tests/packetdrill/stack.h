#pragma once

// The end under test, in virtual time: what the owner of tcp::Connections does
// around them. One connection at a time is live; a script that opens another
// one leaves the first alone.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/packetdrill/stream.h"
#include "transport/base/time.h"
#include "transport/iwarp/tcp/connection.h"
#include "transport/iwarp/tcp/half_open.h"
#include "transport/iwarp/tcp/time_wait.h"

namespace urnic::packetdrill {

// A segment that we have sent.
struct Sent {
  Time when;
  wire::TcpFields fields;
  uint32_t bytes = 0;
  bool ect = false;
};

// Frames live as long as the script.
class Frames final : public FrameKeeper {
 public:
  // A frame of zeros.
  ReceivedFrame Make(uint32_t bytes);
  uint32_t Keep(const ReceivedFrame& frame, FrameHolder& holder) override;
  void Release(uint32_t number, FrameHolder& holder) override;

 private:
  std::deque<std::vector<uint8_t>> frames_;
  uint32_t next_ = 0;
};

// One connection, with the stream above it.
struct Peer {
  Peer(tcp::SegmentSlab* segments, tcp::RangePool* ranges, Frames* frames,
       tcp::ChallengeBudget* challenges)
      : connection(segments, ranges, frames, challenges) {}
  Stream stream;
  tcp::Connection connection;
  tcp::ConnectionConfig config;
  tcp::FourTuple tuple;
  bool in_time_wait = false;  // a record of the table has replaced it
  Time last_data;             // received
};

class Stack {
 public:
  Stack();

  // Of the next connection. Its ports and numbers are chosen here.
  tcp::ConnectionConfig config;
  // Whether our SYNs ask for ECN, if config.offer.ecn is set at all.
  bool asks_for_ecn = false;

  Time now() const { return now_; }
  // The sequence number of our last SYN.
  SeqNum iss() const { return iss_; }

  // A new socket is under test: an inbound SYN begins a new connection.
  void NextConnection();
  // How often that was called.
  int connections() const { return connections_; }
  void Listen() { listening_ = true; }
  void StopListening();
  std::shared_ptr<Peer> Connect();
  // The connection whose handshake is complete; nullptr: none.
  std::shared_ptr<Peer> Accept() { return std::exchange(accepted_, nullptr); }
  // The live connection; may be nullptr.
  const Peer* peer() const { return peer_.get(); }

  void Receive(const wire::TcpSegment& segment, uint32_t bytes);
  // Sends what can be sent. Call it after each call to a Peer.
  void Flush();
  // Timers that are due until then fire, in order.
  void AdvanceTo(Time then);
  // Only the next one. False: none is due until `limit`; then it is `limit`.
  bool Step(Time limit);

  std::deque<Sent> sent;

 private:
  Time NextDeadline() const;
  void Emit(const wire::TcpFields& fields) { sent.push_back({now_, fields}); }
  void MoveToTimeWait();
  // What answers a segment of no connection.
  void Reset(const wire::TcpSegment& segment);
  // True: the segment has completed a handshake.
  bool OnListener(const wire::TcpSegment& segment, std::optional<SeqNum> after);
  // True: the segment has been answered. `after`: an ISN must lie behind it.
  bool OnTimeWait(const wire::TcpSegment& segment,
                  std::optional<SeqNum>& after);
  std::shared_ptr<Peer> NewPeer();

  tcp::SegmentSlab segments_{1024};
  tcp::RangePool ranges_{4096};
  Frames frames_;
  tcp::ChallengeBudget challenges_;
  tcp::HalfOpenTable half_open_;
  tcp::TimeWaitTable time_wait_;
  Time now_ = Time::FromNs(1'000'000'000'000);
  tcp::FourTuple tuple_;
  int connections_ = 0;
  bool listening_ = false;
  std::shared_ptr<Peer> peer_;
  std::shared_ptr<Peer> accepted_;
  SeqNum iss_;
  wire::TcpFields last_;  // of the live connection
};

}  // namespace urnic::packetdrill
