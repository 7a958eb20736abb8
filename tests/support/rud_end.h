#pragma once

// A RUD window with its rings, contexts and tables in private memory, and a
// program that uses it. Packets begin with the base header and end with the
// CRC.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/support/rud_rings.h"
#include "transport/rud/membership.h"
#include "transport/rud/window.h"

namespace urnic::testing {

struct RudEndConfig {
  rud::WindowConfig window;
  wire::Gid address;
  uint32_t contexts = 64;
  uint32_t receive_entries = 256;
  uint32_t tces = 256;  // per table
  uint64_t seed = 1;
  std::optional<uint32_t> peers_key;  // if not set: that of this window
};

class RudEnd {
 public:
  static constexpr uint32_t kSendEntries = 64;
  static constexpr uint32_t kSlotBytes = 1024;

  explicit RudEnd(const RudEndConfig& config)
      : config_(WithPayload(config)),
        context_storage_(config.contexts),
        tce_storage_(rud::TceTables::kTables * size_t{config.tces}),
        contexts_(context_storage_, config.seed),
        tces_(tce_storage_, config.seed + 1),
        rings_(kSendEntries, config.receive_entries, kSlotBytes),
        window_(config_.window, &contexts_, &tces_, rings_.SendFifo(),
                rings_.ReceiveFifo()) {}

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

  // Recovers the RNIC.
  void Recover() {
    window_.ForgetAll();
    contexts_.OnRecovery();
  }

  bool CanPost() const {
    return rings_.send_indices.producer - rings_.send_indices.consumer <
           kSendEntries;
  }
  // Returns the entry's index. `payload` is copied to the slot.
  uint32_t Post(urnic_rud_send command, std::span<const uint8_t> payload = {}) {
    const uint32_t index = rings_.send_indices.producer;
    const uint32_t place = index % kSendEntries;
    command.status = URNIC_RUD_WAITS;
    rings_.sends[place] = command;
    std::copy(payload.begin(), payload.end(),
              rings_.send_slots.begin() + place * kSlotBytes);
    rings_.send_indices.producer = index + 1;
    return index;
  }
  uint32_t StatusOf(uint32_t index) const {
    return rings_.sends[index % kSendEntries].status;
  }

  // The windows of other ends, by the numbers that this one has given them. A
  // peer that is not in this map has the address that Transmit() gets.
  struct Peer {
    wire::Gid address;
    uint32_t window = 0;               // 0: a group
    std::optional<uint32_t> key = {};  // if not set: that of all
  };
  std::map<uint32_t, Peer> peers;
  // The group of which it is a member.
  struct Group {
    wire::Gid address;
    rud::Membership as;
  };
  std::optional<Group> group;
  uint32_t FindPeerBy(const wire::Gid& address, uint32_t window) const {
    for (const auto& [number, peer] : peers) {
      if (peer.address == address && peer.window == window) return number;
    }
    return 0;
  }

  struct Sent {
    uint32_t peer = 0;
    std::vector<uint8_t> bytes;
  };
  // The packets that the window sends. `to`: the address of peers that are not
  // in `peers`.
  std::vector<Sent> Transmit(const wire::Gid& to = {}, uint32_t most = 32) {
    std::vector<rud::TxPacket> packets(most);
    std::vector<uint8_t> headers(most * rud::kMaxHeaderBytes);
    for (uint32_t i = 0; i < most; ++i)
      packets[i].headers = &headers[i * rud::kMaxHeaderBytes];
    const uint32_t count = window_.Transmit(packets);
    std::vector<Sent> out;
    for (const rud::TxPacket& packet : std::span(packets).first(count)) {
      const bool is_read = packet.context != rud::TxPacket::kNoContext;
      if ((is_read || breaks_commands) && packet.payload_bytes != 0 &&
          is_gone && is_gone(packet.payload)) {
        window_.OnGatherFault(packet);
        continue;
      }
      const auto third = peers.find(packet.third_peer);
      if (third != peers.end())
        rud::ThirdAtEnd(packet).address = third->second.address;
      if (on_send) on_send(packet);
      Sent sent = {packet.peer, {}};
      sent.bytes.assign(packet.headers, packet.headers + packet.header_bytes);
      const auto peer = peers.find(packet.peer);
      uint32_t key = config_.peers_key.value_or(config_.window.key);
      if (peer != peers.end()) key = peer->second.key.value_or(key);
      reinterpret_cast<wire::RudBase*>(sent.bytes.data())->key =
          wire::Be<uint32_t>(key);
      const auto* payload = reinterpret_cast<const uint8_t*>(packet.payload);
      if (packet.payload_bytes != 0)
        sent.bytes.insert(sent.bytes.end(), payload,
                          payload + packet.payload_bytes);
      wire::Crc32c crc = wire::RudCrcOfAddresses(
          config_.address, peer != peers.end() ? peer->second.address : to);
      crc.Add(sent.bytes);
      sent.bytes.resize(sent.bytes.size() + wire::kRudCrcBytes);
      crc.Store(sent.bytes.data() + sent.bytes.size() - wire::kRudCrcBytes);
      out.push_back(std::move(sent));
    }
    window_.FinishTransmit();
    return out;
  }

  // Receives a burst of one packet, and returns the verdict. `peer`: the number
  // of a sender that is not in `peers`.
  RxVerdict Receive(std::span<const uint8_t> bytes, const wire::Gid& from,
                    uint32_t peer = 1, bool marked = false) {
    return ReceiveBurst({{bytes.begin(), bytes.end()}}, from, peer, marked)[0];
  }
  // Receives at most kBurstMax packets as a burst, and returns the verdict of
  // each.
  std::vector<RxVerdict> ReceiveBurst(
      const std::vector<std::vector<uint8_t>>& burst, const wire::Gid& from,
      uint32_t peer = 1, bool marked = false) {
    std::vector<rud::RxPacket> packets;
    std::vector<RxVerdict> verdicts;
    std::vector<size_t> places;  // of the packets, in `verdicts`
    for (const std::vector<uint8_t>& bytes : burst) {
      rud::RxPacket packet;
      RxVerdict verdict = wire::ParseRud(
          bytes.data(), static_cast<uint32_t>(bytes.size()), packet);
      if (verdict == RxVerdict::kAccept) {
        const bool is_grouped =
            group.has_value() && packet.base->target_window() == 0;
        if (is_grouped) packet.group = &group->as;
        const wire::Crc32c crc = wire::RudCrcOfAddresses(
            from, is_grouped ? group->address : config_.address);
        if (!wire::RudCrcHolds(crc, bytes)) verdict = RxVerdict::kRudBadCrc;
      }
      if (verdict == RxVerdict::kAccept) {
        const uint32_t known = FindPeerBy(from, packet.base->sender_window());
        packet.peer = known != 0 ? known : peer;
        if (rud::HasThird(packet.type)) {
          packet.third_peer =
              FindPeerBy(packet.third().address, packet.third().number());
        }
        packet.marked = marked;
        places.push_back(verdicts.size());
        packets.push_back(packet);
      }
      verdicts.push_back(verdict);
    }
    Sink sink;
    window_.OnBurst(packets, sink);
    for (const Placement& placement : sink.placements) {
      if (is_gone && is_gone(placement.target)) {
        window_.OnPlacementFault(placement);
        continue;
      }
      if (on_place) on_place(placement, packets[placement.packet]);
      std::memcpy(reinterpret_cast<void*>(placement.target), placement.source,
                  placement.bytes);
    }
    window_.FinishBurst();
    for (size_t i = 0; i < places.size(); ++i)
      verdicts[places[i]] = sink.verdicts[i];
    return verdicts;
  }

  struct Got : urnic_rud_receive {
    std::vector<uint8_t> payload;
  };
  std::optional<Got> Poll() {
    const uint32_t place =
        rings_.receive_indices.consumer % config_.receive_entries;
    urnic_rud_receive& entry = rings_.receives[place];
    if (entry.type == 0) return std::nullopt;
    Got got = {entry, {}};
    const uint8_t* slot = &rings_.receive_slots[place * kSlotBytes];
    got.payload.assign(slot, slot + entry.bytes);
    entry.type = 0;
    ++rings_.receive_indices.consumer;
    return got;
  }
  RudRings& rings() { return rings_; }
  urnic_queue_indices& receive_indices() { return rings_.receive_indices; }
  urnic_queue_indices& send_indices() { return rings_.send_indices; }

  // Whether the program has unmapped this memory. Applies to memory that peers
  // read or write.
  std::function<bool(uint64_t address)> is_gone;
  bool breaks_commands = false;  // and that commands use
  std::function<void(const Placement&, const rud::RxPacket&)> on_place;
  std::function<void(const rud::TxPacket&)> on_send;

 private:
  static RudEndConfig WithPayload(RudEndConfig config) {
    config.window.max_payload = std::min(config.window.max_payload, kSlotBytes);
    return config;
  }

  struct Sink {
    void Place(const Placement& placement) { placements.push_back(placement); }
    void Count(RxVerdict which) { verdicts.push_back(which); }
    std::vector<Placement> placements;
    std::vector<RxVerdict> verdicts;
  };

  const RudEndConfig config_;
  std::vector<rud::Context> context_storage_;
  std::vector<rud::Tce> tce_storage_;
  rud::ContextPool contexts_;
  rud::TceTables tces_;
  RudRings rings_;
  rud::Window window_;
};

}  // namespace urnic::testing
