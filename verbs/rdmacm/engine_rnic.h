#pragma once

// An RNIC of this process for the rdma_cm device. At first it has only its
// identity. When more is needed, it opens the device, and uses QP1 of its
// engine.

#include <atomic>
#include <memory>
#include <vector>

#include "datapath/engine/environment.h"
#include "verbs/control/device.h"
#include "verbs/control/gid_table.h"
#include "verbs/identity/device_identity.h"
#include "verbs/rdmacm/engine_tcp.h"
#include "verbs/rdmacm/rnic.h"

namespace urnic::rdmacm {

// Once open, it stays open until the process ends: connections must still be
// ended after the program has closed the device, and librdmacm never closes it.
class EngineRnic final : public Rnic {
 public:
  EngineRnic(const urnic_device_identity& identity,
             const control::ProgramHooks& hooks);

  const RnicInfo& info() const override { return info_; }
  std::vector<RnicAddress> Addresses() const override;
  std::optional<Route> RouteTo(const wire::Gid& remote) const override;
  uint8_t MtuCode(uint32_t path_mtu) const override;
  urnic::Time Now() const override { return Environment::Now(); }
  TcpConnections* tcp() override { return is_iwarp() ? &tcp_ : nullptr; }

  // Returns the errno of control::Device::Open(), and prints its message to
  // stderr.
  int Open() override;
  bool NoteRefusal(const Notice& notice) override;
  void NoteFailure(const Notice& notice) override;
  void WithToken(void (*action)(void* context, urnic::Time now),
                 void* context) override;
  void Wait() override;
  bool TryWithToken(void (*action)(void* context, urnic::Time now),
                    void* context) override;
  net::QuestionId AskPath(const net::PathQuery& query, net::PathWaiter* waiter,
                          Duration timeout) override;
  void CancelPath(net::QuestionId id) override;
  void ServeMads(net::MadHandler& handler) override;
  void SendMad(std::span<const uint8_t, 256> mad,
               const net::PathQuery& to) override;

 private:
  bool is_iwarp() const {
    return identity_.device_kind == &urnic_device_kinds[URNIC_DEVICE_IWARP];
  }

  const urnic_device_identity identity_;
  const control::ProgramHooks hooks_;
  RnicInfo info_;
  const std::shared_ptr<const control::GidTable> gids_;
  std::shared_ptr<control::Device> device_;  // set once, by Open()
  EngineTcp tcp_;                            // of an iWARP device
  // The same pointer for threads that may run before Open().
  std::atomic<const control::Device*> opened_ = nullptr;
};

}  // namespace urnic::rdmacm
