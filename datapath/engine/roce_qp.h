#pragma once

// A queue pair of RoCE, of any service. Packets name it by its number, and it
// has a path. Each service has a derived class (qp_of.h). Only the engine sees
// that class, so a change to a transport does not recompile the verbs.

#include <cstdint>
#include <memory>
#include <span>

#include "datapath/engine/engine_qp.h"
#include "datapath/engine/roce_path.h"
#include "transport/mem/mr_table.h"
#include "transport/work/image.h"
#include "transport/work/types.h"

namespace urnic {

namespace cc {
struct SharedPath;
}
namespace rc {
class RecoveryPool;
}
class RoceQp;
struct Destination;  // datapath/engine/path_table.h

// The place of a queue pair among those that wait for their path.
struct PathWaiter {
  RoceQp* const qp;
  PathWaiter* ready_next = nullptr;
  bool ready = false;
  bool first = false;  // in the list Destination::first, not in_turn
};

// Created and destroyed through QpTable. Thread: the token holder.
class RoceQp : public EngineQp {
 public:
  // Creates a queue pair of the service that `config` names. REQUIRES: a
  // service of RoCE. `pool` is for RC and XRC.
  static QpPtr<RoceQp> Create(const EngineQpConfig& config, mem::MrTable* mrs,
                              rc::RecoveryPool* pool);
  // The memory that such a queue pair needs: see EngineQpPlace.
  static EngineQpBytes BytesOf(QpService service, uint32_t sq_entries);

  // REQUIRES: is_roce_qp().
  static RoceQp& Of(Flow& flow) { return static_cast<RoceQp&>(flow); }

  // The transport service of its packets.
  wire::Service wire_service() const { return wire_service_; }
  // The P_Key of its packets.
  uint16_t pkey() const { return pkey_; }
  uint32_t xrc_domain() const { return xrc_domain_; }

  // --- The transport's calls: see rc::Qp ----------------------------------

  // Processes packets of one burst, in order, and executes their effects.
  virtual FlowResult OnBurst(std::span<const RxPacket> packets, Time now,
                             FlowSink& sink) = 0;
  virtual FlowResult OnBurst(std::span<const RxPacket> packets, Time now,
                             TracedSink& sink) = 0;
  // A packet that OnBurst() will get is marked "congestion experienced".
  // Datagram queue pairs ignore it: they have no sender to notify.
  virtual void OnMarked(const RxPacket& packet, Time now) = 0;
  // Handles a congestion notification packet of the peer; returns its verdict.
  virtual RxVerdict OnCnp(Time now) = 0;
  // Makes up to slots.size() packets to send; returns how many.
  virtual uint32_t Transmit(Time now, std::span<TxSlot> slots) = 0;
  // The memory of a packet from Transmit() is not mapped. That packet and the
  // later ones are not sent.
  virtual void OnGatherFault(const TxSlot& slot) = 0;
  virtual bool OwesResponses() const = 0;
  virtual uint32_t TransmitResponses(std::span<TxSlot> slots) = 0;
  // RC: see rc::Qp::Join() and Grant(). Others have no window.
  virtual void JoinPath(cc::SharedPath* shared) = 0;
  virtual void Grant(uint32_t packets) = 0;
  // The address handle of a datagram from Transmit() does not exist.
  virtual void OnNoPath(const TxSlot& slot) = 0;

  // recv_psn() is valid from RTR on, send_psn() from RTS on.
  virtual Psn recv_psn() const = 0;
  virtual Psn send_psn() const = 0;
  virtual bool sq_draining() const = 0;
  // Restores a new queue pair from an image. If the image is refused, the queue
  // pair must be destroyed.
  virtual ImageRefusal BecomeImage(std::span<const uint8_t> image,
                                   Time now) = 0;

  const net::Path* common_path() const final {
    return service_ == QpService::kUd ? nullptr : &path;
  }
  // XRC targets, before BecomeImage(): sets the ring of the current receive.
  void TakeFrom(RecvRing& ring) { receives_.queue.Use(&ring); }
  // XRC: stops using the ring, which is about to be destroyed.
  void LetGoOf(const RecvRing& ring) {
    if (receives_.queue.ring() != &ring) return;
    receives_.queue.Reset();
    receives_.queue.Use(nullptr);
  }
  // The completion queue for flushed receives.
  CompletionQueue& flush_cq() const {
    return service_ != QpService::kXrcTarget
               ? *recv_cq
               : *SharedReceiveQueue::Of(*receives_.queue.ring()).cq;
  }

 protected:
  RoceQp(Kind kind, const EngineQpConfig& config);

  void DescribePeer(Failure& failure) const;

 private:
  const uint32_t xrc_domain_;

 public:
  uint64_t packets_received = 0;  // passed to OnBurst(), with any verdict
  RocePath path;                  // begins a cache line
  // The destination whose window the queue pair shares (PathTable); null: none.
  Destination* destination = nullptr;
  PathWaiter path_waiter = {.qp = this};

 protected:
  QpReceives receives_;
};

}  // namespace urnic
