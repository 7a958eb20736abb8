#pragma once

// Keeps copies of a connection manager's messages and events.

#include <array>
#include <cstring>
#include <deque>
#include <vector>

#include "transport/cm/connection_manager.h"

namespace urnic::testing {

using MadBytes = std::array<uint8_t, wire::kMadBytes>;

struct SentMad {
  MadBytes bytes = {};
  net::PathQuery to;

  template <typename Message>
  Message As() const {
    Message m;
    static_assert(sizeof(m) == sizeof(bytes));
    std::memcpy(&m, bytes.data(), sizeof(m));
    return m;
  }
  uint16_t attribute() const {
    return As<wire::CmLap>().mad.attribute_id.value();
  }
};

// The spans of `event` point into the vectors.
struct SeenEvent {
  cm::Event event;
  net::PathQuery from;
  std::vector<uint8_t> private_data;
  std::vector<uint8_t> ari;
};

class CmSink final : public cm::Sink {
 public:
  void SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
               const net::PathQuery& to) override {
    SentMad sent;
    std::memcpy(sent.bytes.data(), mad.data(), mad.size());
    sent.to = to;
    mads.push_back(sent);
  }
  void OnEvent(const cm::Event& event) override {
    SeenEvent& seen = events.emplace_back();
    seen.event = event;
    if (event.from != nullptr) seen.from = *event.from;
    seen.event.from = nullptr;
    seen.private_data.assign(event.private_data.begin(),
                             event.private_data.end());
    seen.ari.assign(event.ari.begin(), event.ari.end());
    seen.event.private_data = seen.private_data;
    seen.event.ari = seen.ari;
  }

  std::deque<SentMad> mads;
  std::deque<SeenEvent> events;
};

}  // namespace urnic::testing
