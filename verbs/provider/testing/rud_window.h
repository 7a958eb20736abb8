#pragma once

// Windows and endpoints of RUD on a device of the program, for tests whose
// main() is provider_main.cc.

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "verbs/direct/urnic_dv.h"
#include "verbs/direct/urnic_ep.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {

inline constexpr uint32_t kRudJob = 9;
inline constexpr unsigned kRudRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

inline ibv_ah_attr ToOurselves(ibv_context* context) {
  ibv_ah_attr ah = {};
  ah.is_global = 1;
  ah.port_num = 1;
  ah.grh.sgid_index = kGidIndexIpv4;
  EXPECT_EQ(ibv_query_gid(context, 1, kGidIndexIpv4, &ah.grh.dgid), 0);
  return ah;
}

template <typename T>
T LoadShared(T& value) {
  return std::atomic_ref(value).load(std::memory_order_acquire);
}

// A window and the program's end of its FIFOs. Nothing here lets the RNIC run
// but Post().
class RudWindowEnd {
 public:
  static constexpr uint32_t kEntries = 16;

  explicit RudWindowEnd(ibv_pd* pd) {
    urnic_dv_window_attr attr = {};
    attr.job = kRudJob;
    attr.send_entries = attr.receive_entries = kEntries;
    qp_ = urnic_dv_create_window(pd, &attr, &at_);
    if (qp_ == nullptr) {
      ADD_FAILURE() << strerror(errno);
      std::abort();
    }
  }
  ~RudWindowEnd() { EXPECT_EQ(ibv_destroy_qp(qp_), 0); }
  RudWindowEnd(const RudWindowEnd&) = delete;
  RudWindowEnd& operator=(const RudWindowEnd&) = delete;

  ibv_qp* qp() const { return qp_; }
  const urnic_dv_window& at() const { return at_; }

  uint32_t AddPeer(const RudWindowEnd& other) {
    urnic_dv_peer_attr attr = {};
    attr.ah = ToOurselves(other.qp_->context);
    attr.window = other.at_.number;
    attr.key = other.at_.key;
    uint32_t peer = 0;
    EXPECT_EQ(urnic_dv_add_peer(qp_, &attr, &peer), 0);
    return peer;
  }
  uint64_t Acquire() {
    uint64_t context = 0;
    EXPECT_EQ(urnic_dv_acquire_contexts(qp_, 1, &context), 0);
    return context;
  }
  // Waits for room, since another thread may have the engine for long.
  void Post(const urnic_rud_send& command, const char* payload = "") {
    urnic_queue_indices& indices = *at_.send_indices;
    while (indices.producer - LoadShared(indices.consumer) == kEntries)
      std::this_thread::yield();
    const uint32_t place = indices.producer % kEntries;
    std::strcpy(
        reinterpret_cast<char*>(at_.send_slots + place * at_.slot_bytes),
        payload);
    at_.sends[place] = command;
    std::atomic_ref(indices.producer).fetch_add(1, std::memory_order_release);
    EXPECT_EQ(urnic_dv_ring(qp_), 0);
  }
  struct Got : urnic_rud_receive {
    const char* payload = nullptr;
  };
  // The next entry, which is taken; its slot may be written again.
  std::optional<Got> Take() {
    const uint32_t place = at_.receive_indices->consumer % kEntries;
    urnic_rud_receive& entry = at_.receives[place];
    if (LoadShared(entry.type) == 0) return std::nullopt;
    const Got got = {entry, reinterpret_cast<const char*>(
                                at_.receive_slots + place * at_.slot_bytes)};
    std::atomic_ref(entry.type).store(0, std::memory_order_relaxed);
    std::atomic_ref(at_.receive_indices->consumer)
        .fetch_add(1, std::memory_order_release);
    return got;
  }
  // Its type; 0: there is none.
  uint8_t TakeType() {
    const std::optional<Got> got = Take();
    return got.has_value() ? got->type : 0;
  }

 private:
  ibv_qp* qp_ = nullptr;
  urnic_dv_window at_ = {};
};

// One that polls.
class RudPollingWindow : public RudWindowEnd {
 public:
  using RudWindowEnd::RudWindowEnd;

  // Runs the RNIC until something has arrived.
  std::optional<Got> Poll() {
    std::optional<Got> got;
    RunUntil([&] { return (got = Take()).has_value(); });
    return got;
  }
  // Of the first command, once the RNIC has handled it.
  uint32_t FirstStatus() {
    RunUntil(
        [&] { return LoadShared(at().sends[0].status) != URNIC_RUD_WAITS; });
    return at().sends[0].status;
  }
  ibv_qp_state State() {
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init = {};
    EXPECT_EQ(ibv_query_qp(qp(), &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
  }
  // The helper thread may have the engine for a moment.
  template <typename Done>
  bool RunUntil(Done&& done) {
    for (int i = 0; i < 1'000'000; ++i) {
      if (done()) return true;
      EXPECT_EQ(urnic_dv_progress(qp()), 0);
    }
    return false;
  }
};

inline urnic_ep* OpenRudEndpoint(ibv_context* context) {
  const urnic_ep_nic nic = {context, -1};
  urnic_ep_attr attr = {};
  attr.job = kRudJob;
  urnic_ep* const endpoint = urnic_ep_open(&nic, 1, &attr);
  EXPECT_NE(endpoint, nullptr) << strerror(errno);
  return endpoint;
}

// The number of the peer.
inline uint32_t IntroduceRudEndpoint(urnic_ep* to, urnic_ep* who) {
  uint8_t address[URNIC_EP_ADDRESS_BYTES];
  size_t bytes = sizeof(address);
  EXPECT_EQ(urnic_ep_address(who, address, &bytes), 0);
  uint32_t peer = 0;
  EXPECT_EQ(urnic_ep_add_peer(to, address, bytes, &peer), 0);
  return peer;
}

}  // namespace urnic
