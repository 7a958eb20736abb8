#pragma once

// Two programs on two hosts with real engines connect over iWARP, exchange
// messages of all kinds, and part. Now and then one of them does something
// else: it refuses, forgets, destroys its queue pair, or takes its memory away.
// An oracle knows every byte. The rules:
//
//   - the owner of a connection is told of a request first, then that it is
//     connected, then of its end, each at most once, and nothing after it has
//     forgotten the connection. The end always comes;
//   - private data arrive as they were sent;
//   - without trouble, and on a network that is good enough, each connection
//     comes about and ends in order. On a worse one it may end, but never
//     because an end broke the protocol;
//   - requests complete once, in order; messages are received once, in order,
//     whole and exact; reads return what is there; a counter counts each atomic
//     once. A write is there before anything that was sent behind it;
//   - around all of that nothing changes, also if the connection has failed,
//     and nothing at all once the queue pair is in ERR or gone;
//   - after the end everything that is left is flushed, once.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datapath/engine/connection_table.h"
#include "tests/sim/engine_host.h"

namespace urnic::sim {

struct SessionConfig {
  uint32_t number = 0;
  uint32_t message_max = 4096;
  uint32_t messages = 20;  // of each side, in each life
  uint32_t depth = 8;      // outstanding at a time, at most kSlots
  uint32_t lives = 1;
  bool mild = true;   // no connection fails once it is established
  bool still = true;  // and none before that
  bool calm = false;  // nobody makes trouble
  // Of the log of inputs of each queue pair, which is replayed when it goes; 0:
  // none.
  size_t log_bytes = 0;
};

struct SessionStats {
  uint64_t lives = 0;
  uint64_t connected = 0;
  uint64_t troubles = 0;
  uint64_t messages = 0;
  uint64_t failures = 0;  // connections that have ended in an error
  uint64_t replayed = 0;  // calls of endpoints and cores
};

class Session {
 public:
  static constexpr uint32_t kSlots = 8;
  static constexpr uint16_t kPort = 7000;  // of each host's listener
  static constexpr uint16_t kNobodysPort = 7001;
  // Sessions connect from these, in turn.
  static constexpr uint16_t kFirstPort = 2000;
  static constexpr uint32_t kPorts = 3;  // of each

  // Both hosts outlive it.
  Session(World& world, EngineHost& active, EngineHost& passive,
          const SessionConfig& config, uint64_t seed);
  ~Session();

  void Start();
  // The number of the session that a request is for; UINT32_MAX: of none.
  static uint32_t NumberIn(std::span<const uint8_t> private_data);
  // A listener has got a request for this session. Under the token.
  void OnRequest(EngineHost& host, IwarpConnection& connection);

  bool over() const { return life_ == config_.lives; }
  const SessionStats& stats() const { return stats_; }
  std::string Where() const;

 private:
  struct End;
  struct Message;
  struct Slot;

  // What the programs mean by an area of memory, in slots.
  enum class Area : uint8_t { kLocal, kReceive, kWritten, kRead, kAreas };
  // What an end does besides its work.
  enum class Trouble : uint8_t {
    kNone,
    kRejects,
    kForgetsRequest,
    kNeverAnswers,
    kAsksNobody,  // connects to a port without a listener
    kDisconnects,
    kForgets,  // its connection
    kDestroysQp,
    kFailsQp,
    kResetsQp,
    kLosesKey,
    kSendsTooMuch,  // more than the peer has receives for
    kTroubles,
  };

  End& PeerOf(const End& end);
  ConnectionTable& TableOf(const End& end);
  bool quiet() const { return trouble_ == Trouble::kNone; }
  // Runs `what` under the token, a moment from now, if this life still lasts.
  void Later(End& end, std::function<void()> what);

  // Connecting and parting.
  void Begin();
  void PlanTrouble();
  void MakeTrouble(End& end);
  void PlanGiveUp();
  void MakeQp(End& end);
  void Connect(End& end, const net::Path& path);
  void Answer(End& end);
  void OnEvent(End& end, IwarpConnection& connection, iwarp::Event event);
  void OnEnd(End& end, iwarp::Event event);
  void Part(End& end);
  void TakeDown(End& end);  // flushes the queue pair, and destroys it
  void Vanish(End& end);    // destroys it with what it has
  void Finish(End& end);
  void EndLife();
  std::vector<uint8_t> PrivateData(bool answer) const;

  // The program of one end.
  void Plan(End& end, Duration delay);
  void Step(End& end);
  void Handle(End& end);
  void PostReceives(End& end);
  void PostRequests(End& end);
  void PostOne(End& end, uint8_t opcode);
  uint8_t NextOpcode(const End& end);
  void OnSent(End& end, const urnic_cqe& cqe);
  void OnReceived(End& end, const urnic_cqe& cqe);
  // The peer has got everything that the end has sent before this message.
  void ConfirmWrites(End& end, uint64_t before);
  bool IsDone(const End& end) const;
  void CheckError(const End& end, uint8_t status) const;

  // Memory.
  size_t Offset(Area area, uint32_t slot) const {
    return (static_cast<size_t>(area) * kSlots + slot) * stride_;
  }
  static uint8_t ByteOf(const Slot& slot, size_t at);
  static void Use(End& end, Area area, uint32_t slot, const End& from,
                  const Message& message);
  void Fill(End& end, Area area, uint32_t slot);
  void Clear(End& end, size_t offset, size_t bytes);
  void CheckAndClear(End& end, Area area, uint32_t slot);
  void CheckLeftovers(End& end);

  World& world_;
  const SessionConfig config_;
  Random random_;
  const size_t stride_;
  std::unique_ptr<End> ends_[2];
  uint32_t life_ = 0;
  uint32_t next_port_ = 0;
  Trouble trouble_ = Trouble::kNone;
  bool struck_ = false;   // there was trouble: nothing more is posted
  bool parting_ = false;  // the orderly end has begun
  SessionStats stats_;
};

}  // namespace urnic::sim
