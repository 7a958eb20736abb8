#pragma once

// Two programs on two hosts with real engines connect by the connection
// manager, exchange messages of all kinds over RC, and disconnect. An oracle
// knows every byte. The rules:
//
//   - on a wire that is good enough for the retries, each connection comes
//     about, and both sides learn of its end;
//   - requests complete once, in order, not before their data is there and, of
//     a send, not before its receive is complete;
//   - messages are received once, in order, whole and exact; reads return what
//     is there; a counter counts each atomic once;
//   - around all of that nothing changes;
//   - on a wire that loses and reorders nothing, no timer is needed. If there
//     are also one completion queue and one request at a time, an answer never
//     appears before what it answers is complete;
//   - after an error, and at the end, everything that is left is flushed, once.

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "tests/sim/engine_host.h"
#include "tests/support/fake_rings.h"

namespace urnic::sim {

struct TalkConfig {
  uint32_t number = 0;
  uint32_t mtu = 1024;  // payload bytes of a packet
  uint32_t message_max = 4096;
  uint32_t messages = 20;  // of each side, in each life
  uint32_t depth = 8;      // outstanding at a time, at most kSlots
  uint32_t lives = 1;
  uint8_t ack_timeout_code = 14;  // 67 ms
  bool mild = true;               // no connection fails once it is established
  bool still = true;              // and none before that: no host moves
  bool ordered = true;            // the wire loses and reorders nothing
};

struct TalkStats {
  uint64_t lives = 0;
  uint64_t messages = 0;
  uint64_t failures = 0;  // connections that have ended in an error
};

class Talk {
 public:
  static constexpr uint32_t kSlots = 8;

  // Both hosts outlive it.
  Talk(World& world, EngineHost& active, EngineHost& passive,
       const TalkConfig& config, uint64_t seed);
  ~Talk();

  void Start();
  // A peer has asked for a connection. The event's private data names this
  // talk.
  void OnRequest(const cm::Event& event);
  // True if this connection is ours.
  bool Owns(const EngineHost& host, cm::Handle handle) const;
  void OnCmEvent(const EngineHost& host, const cm::Event& event);

  bool over() const { return life_ == config_.lives; }
  const TalkStats& stats() const { return stats_; }
  std::string Where() const;

 private:
  struct End;
  struct Message;

  enum class Area : uint8_t { kLocal, kReceive, kWritten, kRead, kAreas };

  End& PeerOf(const End& end);
  void Begin();
  void Connect(End& end, const net::Path& path);
  void Answer(End& end, const net::Path& path);
  void MakeQp(End& end, const net::Path& path);
  void BringUp(End& end);
  void Establish(End& end);

  // The program of one end.
  void Plan(End& end, Duration delay);
  void Step(End& end);
  void Fetch(End& end);
  void Handle(End& end);
  void PostReceives(End& end);
  void PostRequests(End& end);
  void PostOne(End& end);
  void OnSent(End& end, const urnic_cqe& cqe);
  void OnReceived(End& end, const urnic_cqe& cqe);
  bool IsDone(const End& end);

  void Fail(End& end, uint8_t status);
  void Part(End& end);
  void TakeDown(End& end);
  void Finish(End& end);
  void EndLife();

  size_t Offset(Area area, uint32_t slot) const {
    return (static_cast<size_t>(area) * kSlots + slot) * stride_;
  }
  uint8_t ByteOf(const End& end, uint64_t number, size_t at) const;
  void Fill(End& from, uint64_t number, End& in, size_t offset, size_t bytes);
  void CheckAndClear(End& from, uint64_t number, End& in, size_t offset,
                     size_t bytes);

  World& world_;
  const TalkConfig config_;
  Random random_;
  const size_t stride_;
  std::unique_ptr<End> ends_[2];
  uint32_t life_ = 0;
  bool parting_ = false;
  TalkStats stats_;
};

}  // namespace urnic::sim
