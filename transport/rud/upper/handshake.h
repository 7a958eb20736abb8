#pragma once

// How two endpoints give each other contexts: control.h has the messages. Each
// side asks for the contexts that its own operations need.

#include <cstdint>
#include <span>

#include "transport/rud/upper/control.h"
#include "transport/rud/upper/core.h"

namespace urnic::rud::upper {

class Handshake {
 public:
  explicit Handshake(Core* core) : core_(*core) {}

  // A peer was added: its windows are asked as soon as possible.
  void Begin(Peer& peer);
  // Tells the peer that nothing of ours is there for it any more.
  void SayBye(const Peer& peer);
  // Gives back what both sides have of each other.
  void End(Peer& peer);
  // Asks again for what has not been answered.
  void RunTimers(Peer& peer);
  // When that is; infinite: there is nothing to ask for.
  Time DueAt(const Peer& peer) const;
  // The lane, which is in no list, waits until the peer has fenced its context.
  void Fence(Lane& lane);

  // A packet of the pair's peer, which came along `path`. False: it makes no
  // sense, or is of another life.
  bool OnControl(Pair& pair, uint8_t path, const uint8_t tag[16],
                 std::span<const uint8_t> payload);
  // Units whose lane has been fenced: they may begin on another one. The
  // caller's `on_fenced(Lane&)` gets lanes in no list, in state kFree.
  template <typename OnFenced>
  void TakeFenced(OnFenced&& on_fenced) {
    for (Lane* lane : fenced_) on_fenced(*lane);
    fenced_.clear();
  }
  // The paths that have brought an answer since the last call.
  template <typename OnPath>
  void TakeAnswered(OnPath&& on_path) {
    for (Path* path : answered_) on_path(*path);
    answered_.clear();
  }

 private:
  void SendHello(Peer& peer, uint8_t peer_nic);
  void SendRenewal(const Lane& lane, const Path& path);
  void SendGrants(const Pair& pair, uint8_t path, uint8_t nic, uint32_t first,
                  uint32_t count);
  bool OnHello(const Pair& pair, uint8_t path, uint32_t wanted);
  bool OnRenew(const Pair& pair, uint8_t path, const ControlTag& tag,
               const ControlBody& body);
  bool OnGrant(Pair& pair, uint8_t path, const ControlTag& tag,
               std::span<const uint8_t> grants);
  void OnBye(Peer& peer);
  void OnGranted(Peer& peer, uint8_t peer_nic, uint32_t slot,
                 uint32_t generation, ContextId context);
  void AddLane(Peer& peer, uint8_t peer_nic, uint32_t slot, uint32_t generation,
               ContextId context);
  bool Post(const Pair& pair, uint8_t path, const ControlTag& tag,
            std::span<const uint8_t> payload);
  ControlTag TagOf(ControlType type, uint8_t nic, uint32_t count) const;
  Granted MakeGrant(uint8_t nic, uint32_t generation) const;

  Core& core_;
  std::vector<Lane*> fenced_;
  std::vector<Path*> answered_;
};

}  // namespace urnic::rud::upper
