#include "tests/sim/switch.h"

#include <cstring>
#include <utility>

#include "tests/sim/fcs.h"

namespace urnic::sim {

namespace {

constexpr uint16_t kArp = 0x0806;

// Where the MAC addresses are in a frame without a VLAN tag.
constexpr size_t kDst = 0;
constexpr size_t kSrc = 6;
constexpr size_t kHeaderBytes = 14;
constexpr size_t kArpSender = kHeaderBytes + 8;
constexpr size_t kArpTarget = kHeaderBytes + 18;

bool IsArp(const Frame& frame) {
  return frame.size() >= kArpTarget + 6 && frame[12] == kArp >> 8 &&
         frame[13] == (kArp & 0xff);
}
wire::MacAddress MacAt(const Frame& frame, size_t at) {
  wire::MacAddress mac;
  std::memcpy(mac.bytes.data(), &frame[at], 6);
  return mac;
}
void Replace(Frame& frame, size_t at, const wire::MacAddress& from,
             const wire::MacAddress& to) {
  if (MacAt(frame, at) == from) std::memcpy(&frame[at], to.bytes.data(), 6);
}

}  // namespace

// The switch sees the host under a MAC that changes when it moves.
class Switch::Place {
 public:
  std::unique_ptr<Link> uplink;
  std::unique_ptr<Link> downlink;
  wire::MacAddress own;
  wire::MacAddress seen;
  uint8_t moves = 0;
};

Switch::Switch(World& world) : world_(world) {}

Switch::~Switch() = default;

Switch::Place& Switch::Add(const wire::MacAddress& mac, const LinkConfig& up,
                           uint64_t up_seed, const LinkConfig& down,
                           uint64_t down_seed, OnFrame arrived) {
  places_.push_back(std::make_unique<Place>());
  Place& place = *places_.back();
  place.own = place.seen = mac;
  place.uplink = std::make_unique<Link>(
      world_, up_seed, up, [this](Frame frame) { Arrive(std::move(frame)); });
  place.downlink = std::make_unique<Link>(
      world_, down_seed, down,
      [&place, arrived = std::move(arrived)](Frame frame) {
        if (!(place.seen == place.own)) {
          Replace(frame, kDst, place.seen, place.own);
          if (IsArp(frame)) {
            Replace(frame, kArpTarget, place.seen, place.own);
          }
        }
        arrived(std::move(frame));
      });
  return place;
}

void Switch::AddStranger(const wire::MacAddress& mac, OnFrame arrived) {
  strangers_.push_back({mac, std::move(arrived)});
}

void Switch::Send(Place& place, Frame frame) {
  if (!(place.seen == place.own)) {
    Replace(frame, kSrc, place.own, place.seen);
    if (IsArp(frame)) Replace(frame, kArpSender, place.own, place.seen);
  }
  AppendFcs(frame);
  place.uplink->Send(std::move(frame));
}

void Switch::Arrive(Frame frame) {
  if (!TakeFcs(frame)) return;
  if (narrow_mtu_ != 0 && frame.size() > kHeaderBytes + narrow_mtu_) {
    if (report_ != nullptr) report_(frame);
    return;
  }
  const wire::MacAddress to = MacAt(frame, kDst);
  const wire::MacAddress from = MacAt(frame, kSrc);
  for (const Stranger& stranger : strangers_) {
    if (to == stranger.mac) return stranger.arrived(std::move(frame));
  }
  for (const auto& place : places_) {
    if (place->seen == to || (to.is_group() && !(place->seen == from))) {
      place->downlink->Send(frame);
    }
  }
}

void Switch::Move(Place& place) { place.seen.bytes[4] = ++place.moves; }

const wire::MacAddress& Switch::seen(const Place& place) { return place.seen; }

const Link& Switch::downlink(const Place& place) { return *place.downlink; }

void Switch::Narrow(uint32_t mtu, std::function<void(const Frame&)> report) {
  narrow_mtu_ = mtu;
  report_ = std::move(report);
}

uint64_t Switch::lost() const {
  uint64_t lost = 0;
  for (const auto& place : places_) {
    lost += place->uplink->count(LinkCount::k_lost) +
            place->uplink->count(LinkCount::k_burst_lost);
  }
  return lost;
}

}  // namespace urnic::sim
