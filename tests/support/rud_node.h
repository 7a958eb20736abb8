#pragma once

// An RNIC on a port of the test, with a RUD window in state RTS. The window's
// job may access all memory of the node.

#include <string>
#include <vector>

#include "datapath/engine/engine.h"
#include "datapath/engine/qp_table.h"
#include "datapath/engine/rud_window.h"
#include "tests/support/nic_node.h"
#include "tests/support/rud_rings.h"

namespace urnic::testing {

struct RudNodeConfig {
  std::string dev;
  uint32_t ip = 0;
  uint32_t entries = 64;  // of each FIFO
  uint32_t slot_bytes = 1024;
};

class RudNode : public NicNode {
 public:
  static constexpr uint32_t kJob = 5;
  static constexpr uint32_t kSlotBytes = 1024;

  explicit RudNode(const RudNodeConfig& config)
      : NicNode(OpenTestPort(config.dev), wire::Gid::FromIpv4(config.ip), {},
                64),
        key_(config.ip ^ 77),
        tces_(tce_storage_, config.ip),
        rings_(config.entries, config.entries, config.slot_bytes) {
    RudWindowConfig window = {.job = kJob,
                              .key = key_,
                              .max_payload = kSlotBytes,
                              .send = rings_.SendFifo(),
                              .receive = rings_.ReceiveFifo(),
                              .tces = &tces_,
                              .task = {&views_, 0}};
    EngineQpConfig qp;
    qp.service = QpService::kRud;
    qp.rud = &window;
    Engine::ControlScope scope(engine());
    window_ = &RudWindow::Of(**engine().qps().Create(qp));
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts})
      engine().qps().Modify(*window_, state, {});
    pvo_ =
        tces_
            .Register(kJob, address(0), kMemoryBytes,
                      mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead,
                      rud::PageSize::k4K)
            .value();
  }
  ~RudNode() {
    {
      Engine::ControlScope scope(engine());
      engine().qps().Destroy(window_);
    }
    EndNic();
  }

  RudWindow& window() { return *window_; }
  uint32_t key() const { return key_; }
  rud::Pvo pvo() const { return pvo_; }
  rud::TceTables& tces() { return tces_; }
  RudRings& rings() { return rings_; }

  uint32_t AddPeer(const net::Path& path, uint32_t window, uint32_t key) {
    Engine::ControlScope scope(engine());
    return window_->AddPeer(path, window, key);
  }
  std::optional<rud::ContextId> Acquire() {
    Engine::ControlScope scope(engine());
    return window_->AcquireContext();
  }

 private:
  const uint32_t key_;
  rud::TaskViews<std::atomic> views_;
  std::vector<rud::Tce> tce_storage_ =
      std::vector<rud::Tce>(rud::TceTables::kTables * size_t{512});
  rud::TceTables tces_;
  RudRings rings_;
  RudWindow* window_ = nullptr;
  rud::Pvo pvo_;
};

}  // namespace urnic::testing
