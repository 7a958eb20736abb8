#pragma once

// An RNIC of this process for the rdma_cm device: its identity as long as
// nobody needs more, then the device itself and QP1 of its engine.

#include <atomic>
#include <memory>
#include <vector>

#include "verbs/control/device.h"
#include "verbs/control/gid_table.h"
#include "verbs/identity/device_identity.h"
#include "verbs/rdmacm/rnic.h"

namespace urnic::rdmacm {

// Lives as long as the process once it is open: connections have their end in
// front of them when the program has closed the device, and librdmacm never
// does.
class EngineRnic final : public Rnic {
 public:
  EngineRnic(const urnic_device_identity& identity,
             const control::ProgramHooks& hooks);

  const RnicInfo& info() const override { return info_; }
  std::vector<LocalAddress> Addresses() const override;
  std::optional<Route> RouteTo(const wire::Gid& remote) const override;
  uint8_t MtuCode(uint32_t path_mtu) const override;
  urnic::Time Now() const override { return Environment::Now(); }

  // The errno of control::Device::Open(), whose words go to stderr.
  int Open(net::MadHandler& handler) override;
  void WithToken(void (*action)(void* context, urnic::Time now),
                 void* context) override;
  void Wait() override;
  bool TryWithToken(void (*action)(void* context, urnic::Time now),
                    void* context) override;
  net::QuestionId AskPath(const net::PathQuery& query, net::PathWaiter* waiter,
                          Duration timeout) override;
  void CancelPath(net::QuestionId id) override;
  void SendMad(std::span<const uint8_t, 256> mad,
               const net::PathQuery& to) override;

 private:
  const urnic_device_identity identity_;
  const control::ProgramHooks hooks_;
  RnicInfo info_;
  const std::shared_ptr<const control::GidTable> gids_;
  std::shared_ptr<control::Device> device_;  // set once, by Open()
  // The same for those who may be there before it.
  std::atomic<const control::Device*> opened_ = nullptr;
};

}  // namespace urnic::rdmacm
