#pragma once

// The connection manager of an iWARP device: TCP connections and the set-up of
// MPA (tcp_connections.h). It does what Linux's iw_cm does, and the iWARP parts
// of rdma_cm. Programs see these differences from RoCE:
//
// - The private data are only the program's: the addresses are those of TCP.
// - The side that connects goes from rdma_connect() to ESTABLISHED; there is no
//   CONNECT_RESPONSE. The queue pair goes to RTS by itself.
// - There is no TIMEWAIT_EXIT, and the status of REJECTED is an errno.
// - Only the port space RDMA_PS_TCP, and no datagrams.
//
// Differences from Linux: rdma_connect() does not wait for TCP, and
// rdma_disconnect() and rdma_destroy_id() abort the set-up, and do not wait for
// its end.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "transport/net/questions.h"
#include "verbs/rdmacm/cm_port.h"
#include "verbs/rdmacm/tcp_connections.h"

namespace urnic::rdmacm {

// The set-up of rdma_cm's connections, without the depths.
mpa::SetupOptions SetupFor(const iwarp::Options& options);

class IwCmPort final : public CmPort, private TcpEvents {
 public:
  // `tcp`: that of the RNIC. See MakeCmPort().
  IwCmPort(Rnic& rnic, TcpConnections& tcp, CmEvents& events);

  // This port has none: the engine makes the images of iWARP connections.
  bool SendImages(const std::function<bool(std::string_view)>&) override {
    return true;
  }
  int AddListener(const Listening& place) override;
  void RemoveListener(const Listening& place) override;
  int Connect(const ConnectRequest& request, uint64_t user,
              CmHandle& out) override;
  // ECONNRESET: the peer has given up.
  int Accept(CmHandle handle, const AcceptRequest& request) override;
  int Ready(CmHandle handle) override;
  int Reject(CmHandle handle, uint8_t reason,
             std::span<const uint8_t> private_data) override;
  int Disconnect(CmHandle handle) override;
  int Notify(CmHandle handle, uint32_t event) override;
  void Destroy(CmHandle handle) override;
  int GetQpAttributes(CmHandle handle, ib_uverbs_qp_attr& out) override;
  uint32_t connections() const override;
  // TCP repeats a FIN by itself.
  void HurryFarewells(Duration, uint8_t) override {}
  uint32_t unanswered_farewells() const override { return tcp_.farewells(); }
  void GetInitialAttributes(bool is_datagram,
                            ib_uverbs_qp_attr& out) const override;
  bool has_path_records() const override { return false; }

 private:
  // enum iw_cm_state of Linux; kAccepted is a part of its CONN_RECV.
  enum class State : uint8_t {
    kConnecting,
    kRequested,
    kAccepted,
    kEstablished,
    kClosing,
    kIdle,  // over
  };

  // A connection, from the resolution of its path until Destroy().
  struct Connection final : net::PathWaiter {
    Connection(IwCmPort& its_port, uint32_t its_handle)
        : port(its_port), handle(its_handle) {}
    void OnPath(net::PathStatus status, const net::Path& path) override {
      port.OnPath(*this, status, path);
    }

    IwCmPort& port;
    const uint32_t handle;
    uint64_t user = 0;
    State state = State::kConnecting;
    TcpConnectionId tcp = TcpConnectionId::kNone;
    // Set while the path is unknown.
    net::QuestionId question = 0;
    std::unique_ptr<const ConnectRequest> request;
  };
  struct Listener {
    wire::Gid local;
    uint16_t port;
    TcpListenerId tcp;
    uint32_t uses;  // the number of ids that listen
  };

  // --- CmPort
  void Attach() override { tcp_.Attach(*this); }
  void EndCall() override {}

  // --- TcpEvents
  void OnTcpEvent(const TcpEvent& event) override;

  Connection& Add(State state);
  Connection* Find(uint64_t handle);
  std::vector<Listener>::iterator FindListener(const Listening& place);
  void OnRequest(const TcpEvent& event);
  void OnPath(Connection& connection, net::PathStatus status,
              const net::Path& path);
  // Connects, on a resolved path. 0 or an errno.
  int Start(Connection& connection, const net::Path& path);
  // The connection may be deleted within this call.
  void Tell(const Connection& connection, CmEvent& event);

  TcpConnections& tcp_;
  // Token holder only.
  std::unordered_map<uint32_t, std::unique_ptr<Connection>> connections_;
  std::vector<Listener> listeners_;
  uint32_t last_handle_ = 0;
  // An answer that arrives while the question is being asked.
  bool asking_ = false;
  std::optional<int> at_once_;
};

}  // namespace urnic::rdmacm
