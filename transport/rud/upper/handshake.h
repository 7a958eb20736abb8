#pragma once

// How two endpoints grant each other contexts, by the messages of control.h.
// Each side asks for the contexts that its own operations need.

#include <cstdint>
#include <span>

#include "transport/rud/upper/control.h"
#include "transport/rud/upper/core.h"

namespace urnic::rud::upper {

class Handshake {
 public:
  explicit Handshake(Core* core) : core_(*core) {}

  // A peer was added: asks each of its windows for contexts.
  void Begin(Peer& peer);
  // Tells the peer that we have ended or removed it.
  void SayBye(const Peer& peer);
  // Releases the contexts that we have granted to the peer, and those of our
  // lanes.
  void End(Peer& peer);
  // Repeats requests that have not been answered.
  void RunTimers(Peer& peer);
  // When RunTimers() has to run again; infinite: no request is outstanding.
  Time DueAt(const Peer& peer) const;
  // Asks the peer to fence its context of the lane. The lane waits for the
  // answer. REQUIRES: it is in no list.
  void Fence(Lane& lane);

  // A control packet from the pair's peer, which came along `path`. False: it
  // is invalid, or from another incarnation.
  bool OnControl(Pair& pair, uint8_t path, const uint8_t tag[16],
                 std::span<const uint8_t> payload);
  // Calls `on_fenced(Lane&)` for lanes that have been fenced since the last
  // call: their units may now begin on another lane. The lanes are in no list.
  template <typename OnFenced>
  void TakeFenced(OnFenced&& on_fenced) {
    for (Lane* lane : fenced_) on_fenced(*lane);
    fenced_.clear();
  }
  // Calls `on_path(Path&)` for the paths that have delivered an answer since
  // the last call.
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
