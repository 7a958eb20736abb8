#pragma once

// One window of an endpoint: implements with direct verbs what the upper layer
// needs of it. Uses nothing else of the RNIC. Thread: the endpoint's.

#include <memory>

#include "transport/rud/upper/adapter.h"
#include "verbs/direct/provider_table.h"

namespace urnic::rud {

class WindowAdapter final : public upper::Adapter {
 public:
  // Null: errno. `gid_index`: see urnic_ep_nic.
  static std::unique_ptr<WindowAdapter> Open(ibv_context* context,
                                             int gid_index,
                                             const urnic_dv_window_attr& attr);
  ~WindowAdapter() override;
  WindowAdapter(const WindowAdapter&) = delete;
  WindowAdapter& operator=(const WindowAdapter&) = delete;

  upper::WindowAddress Address() const override { return address_; }
  upper::RingMemory Rings() override;
  uint32_t PacketBytes() const override { return window_.max_payload; }
  uint32_t AddPeer(const upper::WindowAddress& address) override;
  void RemovePeer(uint32_t peer) override;
  std::optional<ContextId> AcquireContext() override;
  void ReleaseContext(ContextId context) override;
  void Doorbell() override;

  // Runs the RNIC. 0 or an errno.
  int Progress();
  ibv_context* context() const { return context_; }
  // The errno of the last AddPeer(), or 0.
  int add_peer_error() const { return add_peer_error_; }
  ibv_qp* qp() const { return qp_; }

 private:
  WindowAdapter(ibv_context* context, ibv_pd* pd)
      : context_(context), pd_(pd) {}

  ibv_context* const context_;
  ibv_pd* const pd_;
  uint8_t gid_index_ = 0;
  ibv_qp* qp_ = nullptr;
  urnic_dv_window window_ = {};
  upper::WindowAddress address_;
  int add_peer_error_ = 0;
};

}  // namespace urnic::rud
