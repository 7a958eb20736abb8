#include "verbs/rud/window_adapter.h"

#include <cerrno>
#include <cstring>

namespace urnic::rud {
namespace {

constexpr uint8_t kPort = 1;

wire::Gid ToGid(const ibv_gid& gid) {
  wire::Gid result;
  std::memcpy(result.bytes.data(), gid.raw, sizeof(gid.raw));
  return result;
}

}  // namespace

std::unique_ptr<WindowAdapter> WindowAdapter::Open(
    ibv_context* context, int gid_index, const urnic_dv_window_attr& attr) {
  ibv_pd* const pd = ibv_alloc_pd(context);
  if (pd == nullptr) return nullptr;
  std::unique_ptr<WindowAdapter> made(new WindowAdapter(context, pd));
  made->qp_ = urnic_dv_table_v1.create_window(pd, &attr, &made->window_);
  if (made->qp_ == nullptr) return nullptr;
  const int index = gid_index < 0 ? made->window_.gid_index : gid_index;
  ibv_gid gid;
  if (index > UINT8_MAX || ibv_query_gid(context, kPort, index, &gid) != 0) {
    errno = EINVAL;
    return nullptr;
  }
  made->gid_index_ = static_cast<uint8_t>(index);
  made->address_ = {.gid = ToGid(gid),
                    .window = made->window_.number,
                    .key = made->window_.key};
  return made;
}

WindowAdapter::~WindowAdapter() {
  const int error = errno;  // keep that of Open()
  if (qp_ != nullptr) ibv_destroy_qp(qp_);
  ibv_dealloc_pd(pd_);
  errno = error;
}

upper::RingMemory WindowAdapter::Rings() {
  return {.sends = window_.sends,
          .send_indices = window_.send_indices,
          .send_slots = window_.send_slots,
          .receives = window_.receives,
          .receive_indices = window_.receive_indices,
          .receive_slots = window_.receive_slots,
          .send_count = window_.send_entries,
          .send_slot_bytes = window_.slot_bytes,
          .receive_count = window_.receive_entries,
          .receive_slot_bytes = window_.slot_bytes};
}

uint32_t WindowAdapter::AddPeer(const upper::WindowAddress& address) {
  urnic_dv_peer_attr attr = {};
  attr.ah.is_global = 1;
  attr.ah.port_num = kPort;
  attr.ah.grh.sgid_index = gid_index_;
  std::memcpy(attr.ah.grh.dgid.raw, address.gid.bytes.data(),
              sizeof(attr.ah.grh.dgid.raw));
  attr.window = address.window;
  attr.key = address.key;
  uint32_t peer = 0;
  add_peer_error_ = urnic_dv_table_v1.add_peer(qp_, &attr, &peer);
  return add_peer_error_ == 0 ? peer : 0;
}

void WindowAdapter::RemovePeer(uint32_t peer) {
  Progress();
  urnic_dv_table_v1.remove_peer(qp_, peer);
}

std::optional<ContextId> WindowAdapter::AcquireContext() {
  uint64_t context = 0;
  if (urnic_dv_table_v1.acquire_contexts(qp_, 1, &context) != 0)
    return std::nullopt;
  return ContextId::Of(context);
}

void WindowAdapter::ReleaseContext(ContextId context) {
  urnic_dv_table_v1.release_context(qp_, context.value());
}

void WindowAdapter::Doorbell() { urnic_dv_table_v1.ring(qp_); }

int WindowAdapter::Progress() { return urnic_dv_table_v1.progress(qp_); }

}  // namespace urnic::rud
