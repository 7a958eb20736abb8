#include "verbs/control/rud_rings.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/environment.h"
#include "datapath/engine/rud_window.h"
#include "ras/errors/refusal.h"
#include "ras/marks/marked_block.h"
#include "transport/wire/rud.h"
#include "verbs/control/device.h"

namespace urnic::control {
namespace {

// The longest headers in front of a payload, with IPv6.
constexpr uint32_t kIpv6Bytes = 40;
constexpr uint32_t kHeaderBytes = kIpv6Bytes + sizeof(wire::Udp) +
                                  wire::kRudMaxHeaderBytes + wire::kRudCrcBytes;

// Whole cache lines, as everything that the RNIC and a program share.
uint32_t PayloadOf(const Device& device) {
  constexpr uint32_t kLeast = 352;  // of a port (urnic-run(1))
  return (std::max(device.ip_mtu(), kLeast) - kHeaderBytes) / URNIC_ABI_LINE *
         URNIC_ABI_LINE;
}

}  // namespace

QpLayout MakeRudLayout(uint32_t sends, uint32_t receives) {
  return {.sq_entries = std::bit_ceil(sends),
          .rq_entries = std::bit_ceil(receives),
          .sq_stride = sizeof(urnic_rud_send),
          .rq_stride = sizeof(urnic_rud_receive)};
}

absl::StatusOr<std::unique_ptr<RudRings>> RudRings::Make(
    Device& device, const RudRequest& request, const RudView& rings,
    QueueAllocator* allocator) {
  RudView view = rings;
  view.job = request.job;
  view.key = static_cast<uint32_t>(Environment::Draw());
  view.max_payload = PayloadOf(device);
  if (request.slot_bytes > URNIC_RUD_MAX_SLOT) {
    return Refusal(
        ErrorCode::kBadAttribute,
        absl::StrCat("create_window: slot_bytes ", request.slot_bytes, ", of ",
                     URNIC_RUD_MAX_SLOT, " that a UDP packet can have"));
  }
  view.slot_bytes =
      request.slot_bytes != 0
          ? static_cast<uint32_t>(RoundUp(request.slot_bytes, URNIC_ABI_LINE))
          : view.max_payload;
  const size_t sends = size_t{view.send_entries} * view.slot_bytes;
  const size_t receives = size_t{view.receive_entries} * view.slot_bytes;
  auto slots = QueueMemory::Make(device.memory(), sends + receives, allocator,
                                 QueueAllocator::Use::kQp, {"RudSlots"});
  if (!slots.ok()) return slots.status();
  view.send_slots = slots->at(0);
  view.receive_slots = slots->at(sends);
  // The program waits for receive entries that are not zero, and does not set
  // fields of commands that it does not know.
  std::memset(static_cast<void*>(view.sends), 0,
              view.send_entries * sizeof(urnic_rud_send));
  std::memset(static_cast<void*>(view.receives), 0,
              view.receive_entries * sizeof(urnic_rud_receive));
  const auto memory = RudMemory::Find();
  if (!memory.ok()) return memory.status();
  auto user = (*memory)->AddUser(device.engine());
  if (!user.ok()) return user.status();
  return std::unique_ptr<RudRings>(
      new RudRings(view, *std::move(slots), *std::move(user)));
}

RudWindowConfig RudRings::Config() const {
  return {
      .job = view_.job,
      .key = view_.key,
      .max_payload = view_.max_payload,
      .send = rud::SendFifo(view_.sends, view_.send_entries, view_.send_indices,
                            view_.send_slots, view_.slot_bytes),
      .receive = rud::ReceiveFifo(view_.receives, view_.receive_entries,
                                  view_.receive_indices, view_.receive_slots,
                                  view_.slot_bytes),
      .tces = &user_->tces(),
      .task = user_->task()};
}

}  // namespace urnic::control
