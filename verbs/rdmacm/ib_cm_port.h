#pragma once

// The connection manager of a RoCE device. It connects cm::ConnectionManager
// with the engine, which delivers MADs, and with the rdma_cm device. It does
// what Linux's rdma_cm does for InfiniBand: the private data of requests begin
// with the addresses of both sides (IpCmHeader), and each message becomes an
// event.
//
// The manager's events arrive in the middle of its calls, so their handler must
// not call it. It records further work in later_, which is done after the call.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "transport/cm/connection_manager.h"
#include "verbs/rdmacm/cm_port.h"

namespace urnic::rdmacm {

class IbCmPort final : public CmPort,
                       private net::MadHandler,
                       private cm::Sink {
 public:
  // See MakeCmPort().
  IbCmPort(Rnic& rnic, CmEvents& events, const NumberKey& key, Lessor* lessor);

  bool SendImages(const std::function<bool(std::string_view)>& reply) override;
  // The manager has one listener for each service id. The private data of a
  // request determine which id of the program gets it.
  int AddListener(const Listening& place) override;
  void RemoveListener(const Listening& place) override;
  int Connect(const ConnectRequest& request, uint64_t user,
              CmHandle& out) override;
  int Accept(CmHandle handle, const AcceptRequest& request) override;
  int Ready(CmHandle handle) override;
  int Reject(CmHandle handle, uint8_t reason,
             std::span<const uint8_t> private_data) override;
  int Disconnect(CmHandle handle) override;
  int Notify(CmHandle handle, uint32_t event) override;
  void Destroy(CmHandle handle) override;
  int GetQpAttributes(CmHandle handle, ib_uverbs_qp_attr& out) override;
  uint32_t connections() const override;
  void HurryFarewells(Duration interval, uint8_t repeats) override;
  uint32_t unanswered_farewells() const override;
  void GetInitialAttributes(bool is_datagram,
                            ib_uverbs_qp_attr& out) const override;
  bool has_path_records() const override { return true; }

 private:
  enum class What : uint8_t {
    kAdopt,       // give a new connection its user
    kPrepareMra,  // if the peer repeats its message, ask it to wait
    kRefuse,      // answer a new connection with a REJ, and destroy it
    kRefuseSidr,  // the same with a SIDR_REP
    kForget,      // destroy
  };
  struct Deferred {
    What what;
    cm::Handle handle;
    uint64_t user = 0;
  };
  struct Listener {
    uint64_t service_id;
    cm::Handle handle;
    uint32_t uses;
  };

  // --- CmPort
  void Attach() override;
  void EndCall() override { DoLater(now()); }

  // --- net::MadHandler
  RxVerdict OnMad(std::span<const uint8_t> mad, const net::PathQuery& from,
                  Time now) override;
  void OnTimer(Time now) override;
  Time NextDeadline() const override;
  bool IsQpnBusy(Qpn qpn) const override { return cm_->IsQpnBusy(qpn); }

  // --- cm::Sink
  void SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
               const net::PathQuery& to) override;
  void OnEvent(const cm::Event& event) override;

  // Events (ib_cm_events.cc).
  void OnRequest(const cm::Event& event);
  void Later(What what, cm::Handle handle, uint64_t user = 0) {
    later_.push_back({what, handle, user});
  }
  void DoLater(Time now);

  // Calls (ib_cm_calls.cc).
  int ConnectStream(const ConnectRequest& request, uint64_t user,
                    cm::Handle& out);
  int AskForDatagrams(const ConnectRequest& request, uint64_t user,
                      cm::Handle& out);
  bool AsksForDatagrams(CmHandle handle) const;

  const cm::Config config_;
  // Token holder only.
  std::optional<cm::ConnectionManager> cm_;  // since Attach()
  std::vector<Deferred> later_;
  std::vector<Listener> listeners_;
};

}  // namespace urnic::rdmacm
