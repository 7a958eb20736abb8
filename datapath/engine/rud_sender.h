#pragma once

// Turns the packets of RUD windows into frames, for the port or for ourselves.
// The counterpart of RudReceiver. Token holder only.

#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "datapath/engine/network.h"
#include "datapath/engine/rud_window.h"
#include "datapath/engine/transmit_queue.h"
#include "datapath/memory/address_space.h"
#include "transport/wire/rud.h"

namespace urnic {

class RudSender {
 public:
  // All outlive the sender.
  RudSender(TransmitQueue* tx, AddressSpace* memory, EngineCounters* counters)
      : tx_(tx), memory_(memory), counters_(counters) {
    for (uint32_t i = 0; i < rud::kBurstMax; ++i)
      slots_[i].headers = headers_[i];
  }
  RudSender(const RudSender&) = delete;
  RudSender& operator=(const RudSender&) = delete;

  void Serve(Network* network) { network_ = network; }

  // There is no room for frames to ourselves, and any packet may become one.
  bool IsBlocked() const { return tx_->loop_room() == 0; }

  // Sends up to `room` packets, and returns the number of frames. If there were
  // fragments, which may be more, it returns `room`. The caller settles the
  // window afterwards. `sink`: that of the burst. REQUIRES: room <=
  // tx->empty_frames(), and the port accepts that many.
  template <typename Sink>
  uint32_t Send(RudWindow& window, uint32_t room, Sink& sink);

 private:
  template <typename Sink>
  uint32_t SendOne(RudWindow& window, const rud::TxPacket& packet, Sink& sink);
  // Sends a packet that is longer than the link's in fragments. `bytes`: from
  // the base header to the CRC. Returns the number of frames. If there is not
  // enough room for all, the packet is lost.
  template <typename Sink>
  [[gnu::cold]] uint32_t SendFragments(RudWindow& window, const RudPeer& peer,
                                       const rud::TxPacket& packet,
                                       uint16_t bytes, Sink& sink);
  void Push(const RudPeer& peer, rte_mbuf* frame);
  // Whether there is room for another frame. After fragments, there may be
  // none.
  [[gnu::cold]] bool HasRoom();
  // Writes a frame without padding. False: the payload's memory is not mapped.
  bool Build(const RudPeer& peer, const rud::TxPacket& packet, uint16_t bytes,
             uint8_t* start);

  TransmitQueue* const tx_;
  AddressSpace* const memory_;
  EngineCounters* const counters_;
  Network* network_ = nullptr;
  rud::TxPacket slots_[rud::kBurstMax];
  uint8_t headers_[rud::kBurstMax][rud::kMaxHeaderBytes];
  // A packet before it is divided into fragments.
  const std::unique_ptr<uint8_t[]> whole_ =
      std::make_unique_for_overwrite<uint8_t[]>(
          wire::HeaderTemplate::kMaxBytes + wire::kRoceMaxBytes);
};

}  // namespace urnic
