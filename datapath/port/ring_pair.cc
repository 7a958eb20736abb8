#include "datapath/port/ring_pair.h"

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "datapath/guest/device_gate.h"
#include "datapath/port/port_spec.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"

namespace urnic {
namespace {

struct Pair {
  rte_ring* ring[2] = {};  // [side]: what that side receives
  DeviceGate* gate[2] = {};
  int event_fd[2] = {-1, -1};
};

std::mutex g_mutex;
// Never destroyed: keeper threads outlive static objects.
std::map<std::string, Pair>& Pairs() {
  static auto* pairs = new std::map<std::string, Pair>;
  return *pairs;
}

void Drain(rte_ring* ring) {
  void* frame;
  while (rte_ring_dequeue(ring, &frame) == 0) {
    rte_pktmbuf_free(static_cast<rte_mbuf*>(frame));
  }
}

void SetCarrier(Pair& pair, int side, bool up) {
  pair.gate[side]->SetCarrier(up);
  const uint64_t one = 1;
  static_cast<void>(write(pair.event_fd[side], &one, sizeof(one)) == 0);
}

}  // namespace

absl::StatusOr<RingEnd> RingEndOf(const std::string& name, int side) {
  std::lock_guard lock(g_mutex);
  Pair& pair = Pairs()[name];
  for (int i = 0; i < 2; ++i) {
    if (pair.ring[i] != nullptr) continue;
    const std::string ring_name = absl::StrCat("ur_", name, "_", i);
    pair.ring[i] =
        rte_ring_create(ring_name.c_str(), kRingPairSlots, SOCKET_ID_ANY,
                        RING_F_SP_ENQ | RING_F_SC_DEQ);
    if (pair.ring[i] == nullptr) {
      return Refusal(
          ErrorCode::kNoMemory,
          absl::StrCat("ring ", name, ": ", rte_strerror(rte_errno)));
    }
  }
  return RingEnd{.rx = pair.ring[side], .tx = pair.ring[1 - side]};
}

void ServeRing(const std::string& name, int side, DeviceGate* gate,
               int event_fd) {
  std::lock_guard lock(g_mutex);
  Pair& pair = Pairs()[name];
  URNIC_CHECK(pair.gate[side] == nullptr);
  pair.gate[side] = gate;
  pair.event_fd[side] = event_fd;
  if (pair.gate[1 - side] == nullptr) return;
  SetCarrier(pair, side, true);
  SetCarrier(pair, 1 - side, true);
}

void UnserveRing(const std::string& name, int side) {
  std::lock_guard lock(g_mutex);
  Pair& pair = Pairs()[name];
  pair.gate[side] = nullptr;
  if (pair.gate[1 - side] != nullptr) SetCarrier(pair, 1 - side, false);
  Drain(pair.ring[side]);
}

}  // namespace urnic
