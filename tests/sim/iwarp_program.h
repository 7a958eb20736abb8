#pragma once

// A program at one end of a connection: posts requests and receives at random,
// changes the memory that its peer may read, opens and closes keys, and gets
// into trouble if it is told to.

#include <array>
#include <cstdint>
#include <optional>

#include "tests/sim/iwarp_end.h"
#include "tests/sim/iwarp_flow.h"

namespace urnic::sim {

// What a request does wrong, or what happens to the memory of the peer.
enum class IwarpTrouble : uint8_t {
  kNone,
  kBadKey,
  kBeyondRegion,
  kNoRights,
  kTooLong,      // for its receive
  kNoReceive,    // is posted for it
  kUnaligned,    // atomic
  kBadLocalKey,  // of its own memory
  kUnsupported,  // by iWARP
  kBrokenMemory,
};
inline constexpr uint64_t kIwarpTroubles = 10;

// A key that a program opens for its peer alone, and that either closes.
struct IwarpGrant {
  enum class State : uint8_t { kShut, kOpening, kOpen, kClosing };
  State state = State::kShut;
  bool window = false;  // of type 2; otherwise a region
  uint32_t key = 0;
  size_t offset = 0;
  uint32_t bytes = 0;
  // The request that changes the state; of the peer, if it is a send.
  bool by_peer = false;
  size_t request = 0;
};

class IwarpProgram {
 public:
  // `requests`: ours; `served`: the peer's.
  IwarpProgram(Random& random, IwarpEnd& self, IwarpFlow& requests,
               IwarpFlow& served);
  ~IwarpProgram();
  IwarpProgram(const IwarpProgram&) = delete;
  IwarpProgram& operator=(const IwarpProgram&) = delete;
  void Meet(IwarpProgram& peer) { peer_ = &peer; }

  // The connection is established. `immediate`: which requests with immediate
  // data are possible; `max_answered`: reads and atomics at a time.
  void Start(rdmap::ImmediateData immediate, uint32_t max_answered) {
    immediate_ = immediate;
    max_answered_ = max_answered;
  }
  void PostReceives();
  // The first request, which begins the conversation.
  void Greet();
  // Some of what a program does.
  void Act();
  // False: it cannot happen now.
  bool MakeTrouble(IwarpTrouble trouble);

 private:
  struct Target {
    uint32_t key = 0;
    uint64_t address = 0;
    int grant = -1;
  };

  IwarpRequest New(uint8_t opcode, uint32_t bytes);
  bool GiveMemory(IwarpRequest& request);
  void Post(IwarpRequest request);
  void PostRandom();
  std::optional<uint8_t> ChooseOpcode();
  uint32_t ChooseLength(uint8_t opcode);
  // Memory of the peer: of `bytes`, or a word.
  Target ChooseTarget(uint32_t bytes, bool word);
  bool SetOperands(IwarpRequest& request);
  bool CloseKeyOfPeer(IwarpRequest& request);
  void ChangeMemory();
  void FollowGrants();
  void OpenGrant(IwarpGrant& grant);
  void CloseGrant(IwarpGrant& grant, size_t number);
  // The receive that our next message takes; null: none is posted.
  const IwarpReceive* NextReceive() const;

  Random& random_;
  IwarpEnd& self_;
  IwarpFlow& requests_;
  IwarpFlow& served_;
  IwarpProgram* peer_ = nullptr;
  std::array<IwarpGrant, 3> grants_;
  rdmap::ImmediateData immediate_ = rdmap::ImmediateData::kNone;
  uint32_t max_answered_ = 0;
  bool posts_receives_ = true;
  bool in_trouble_ = false;
};

}  // namespace urnic::sim
