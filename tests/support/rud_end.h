#pragma once

// One RUD window with its rings, pool and tables in private memory, and a
// program that posts to it. Packets are from the base header to the CRC.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/rud/window.h"

namespace urnic::testing {

struct RudEndConfig {
  rud::WindowConfig window;
  wire::Gid address;
  uint32_t contexts = 64;
  uint32_t receive_entries = 256;
  uint64_t seed = 1;
};

class RudEnd {
 public:
  static constexpr uint32_t kSendEntries = 64;
  static constexpr uint32_t kSlotBytes = 1024;

  explicit RudEnd(const RudEndConfig& config)
      : config_(config),
        context_storage_(config.contexts),
        tce_storage_(kTces),
        contexts_(context_storage_, config.seed),
        tces_(tce_storage_, config.seed + 1),
        sends_(kSendEntries),
        send_slots_(kSendEntries * kSlotBytes),
        receives_(config.receive_entries),
        receive_slots_(config.receive_entries * kSlotBytes),
        window_(config.window, &contexts_, &tces_,
                rud::SendFifo(sends_.data(), kSendEntries, &send_indices_,
                              send_slots_.data(), kSlotBytes),
                rud::ReceiveFifo(receives_.data(), config.receive_entries,
                                 &receive_indices_, receive_slots_.data(),
                                 kSlotBytes)) {}

  rud::Window& window() { return window_; }
  rud::ContextPool& contexts() { return contexts_; }
  rud::TceTables& tces() { return tces_; }
  const RudEndConfig& config() const { return config_; }

  rud::ContextId Acquire() {
    return contexts_.Acquire(config_.window.number).value();
  }
  void Release(rud::ContextId id) {
    window_.Forget(id.number);
    contexts_.Release(id.number);
  }

  bool CanPost() const {
    return send_indices_.producer - send_indices_.consumer < kSendEntries;
  }
  // Returns the entry's index. `payload` goes into the slot.
  uint32_t Post(urnic_rud_send command, std::span<const uint8_t> payload = {}) {
    const uint32_t index = send_indices_.producer;
    const uint32_t place = index % kSendEntries;
    command.status = URNIC_RUD_WAITS;
    sends_[place] = command;
    std::copy(payload.begin(), payload.end(),
              send_slots_.begin() + place * kSlotBytes);
    send_indices_.producer = index + 1;
    return index;
  }
  uint32_t StatusOf(uint32_t index) const {
    return sends_[index % kSendEntries].status;
  }

  struct Sent {
    uint32_t peer = 0;
    std::vector<uint8_t> bytes;
  };
  // Everything that the window has to send, to an address.
  std::vector<Sent> Transmit(const wire::Gid& to, uint32_t most = 32) {
    std::vector<rud::TxPacket> packets(most);
    std::vector<uint8_t> headers(most * rud::kMaxHeaderBytes);
    for (uint32_t i = 0; i < most; ++i)
      packets[i].headers = &headers[i * rud::kMaxHeaderBytes];
    const uint32_t count = window_.Transmit(packets);
    std::vector<Sent> out;
    for (const rud::TxPacket& packet : std::span(packets).first(count)) {
      const bool is_read = packet.context != rud::TxPacket::kNoContext;
      if (is_read && packet.payload_bytes != 0 && is_gone &&
          is_gone(packet.payload)) {
        window_.OnGatherFault(packet);
        continue;
      }
      Sent sent = {packet.peer, {}};
      sent.bytes.assign(packet.headers, packet.headers + packet.header_bytes);
      const auto* payload = reinterpret_cast<const uint8_t*>(packet.payload);
      if (packet.payload_bytes != 0)
        sent.bytes.insert(sent.bytes.end(), payload,
                          payload + packet.payload_bytes);
      wire::Crc32c crc = wire::RudCrcOfAddresses(config_.address, to);
      crc.Add(sent.bytes);
      sent.bytes.resize(sent.bytes.size() + wire::kRudCrcBytes);
      crc.Store(sent.bytes.data() + sent.bytes.size() - wire::kRudCrcBytes);
      out.push_back(std::move(sent));
    }
    window_.FinishTransmit();
    return out;
  }

  // A burst of one packet; the verdict.
  RxVerdict Receive(std::span<const uint8_t> bytes, const wire::Gid& from,
                    uint32_t peer = 1, bool marked = false) {
    rud::RxPacket packet;
    const RxVerdict form = wire::ParseRud(
        bytes.data(), static_cast<uint32_t>(bytes.size()), packet);
    if (form != RxVerdict::kAccept) return form;
    if (!wire::RudCrcHolds(wire::RudCrcOfAddresses(from, config_.address),
                           bytes)) {
      return RxVerdict::kRudBadCrc;
    }
    packet.peer = peer;
    packet.marked = marked;
    Sink sink = {*this, {}, RxVerdict::kAccept};
    window_.OnBurst({&packet, 1}, sink);
    for (const Placement& placement : sink.placements) {
      if (is_gone && is_gone(placement.target)) {
        window_.OnPlacementFault(placement);
        continue;
      }
      if (on_place) on_place(placement);
      std::memcpy(reinterpret_cast<void*>(placement.target), placement.source,
                  placement.bytes);
    }
    window_.FinishBurst();
    return sink.verdict;
  }

  struct Got : urnic_rud_receive {
    std::vector<uint8_t> payload;
  };
  std::optional<Got> Poll() {
    const uint32_t place = receive_indices_.consumer % config_.receive_entries;
    urnic_rud_receive& entry = receives_[place];
    if (entry.type == 0) return std::nullopt;
    Got got = {entry, {}};
    const uint8_t* slot = &receive_slots_[place * kSlotBytes];
    got.payload.assign(slot, slot + entry.bytes);
    entry.type = 0;
    ++receive_indices_.consumer;
    return got;
  }
  urnic_queue_indices& receive_indices() { return receive_indices_; }
  urnic_queue_indices& send_indices() { return send_indices_; }

  // Memory that a program has unmapped, of what peers read and write.
  std::function<bool(uint64_t address)> is_gone;
  std::function<void(const Placement&)> on_place;

 private:
  static constexpr size_t kTces = rud::TceTables::kTables * size_t{256};

  struct Sink {
    void Place(const Placement& placement) { placements.push_back(placement); }
    void Count(RxVerdict which) { verdict = which; }
    RudEnd& end;
    std::vector<Placement> placements;
    RxVerdict verdict;
  };

  const RudEndConfig config_;
  std::vector<rud::Context> context_storage_;
  std::vector<rud::Tce> tce_storage_;
  rud::ContextPool contexts_;
  rud::TceTables tces_;
  std::vector<urnic_rud_send> sends_;
  std::vector<uint8_t> send_slots_;
  urnic_queue_indices send_indices_ = {};
  std::vector<urnic_rud_receive> receives_;
  std::vector<uint8_t> receive_slots_;
  urnic_queue_indices receive_indices_ = {};
  rud::Window window_;
};

}  // namespace urnic::testing
