#pragma once

// A program for tests: the service, a channel, and its events. It has one RNIC,
// RoCE or iWARP, or both on one port.

#include <arpa/inet.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verbs/rdmacm/service.h"
#include "verbs/rdmacm/testing/fake_network.h"
#include "verbs/rdmacm/testing/fake_tcp.h"

namespace urnic::rdmacm {

// "10.0.0.1" or "fd00::1".
inline wire::Gid GidOf(const std::string& text) {
  in_addr v4;
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return wire::Gid::FromIpv4(ntohl(v4.s_addr));
  }
  in6_addr v6 = {};
  inet_pton(AF_INET6, text.c_str(), &v6);
  return wire::Gid::FromIpv6(v6.s6_addr);
}
inline SocketAddress Address(const std::string& text, uint16_t port = 0,
                             uint32_t scope = 0) {
  SocketAddress address;
  const bool is_ipv4 = text.find(':') == std::string::npos;
  address.set_family(is_ipv4 ? AF_INET : AF_INET6);
  if (is_ipv4) return SocketAddress::FromGid(GidOf(text), port, 0);
  address.set_ipv6(GidOf(text));
  address.set_scope(scope);
  address.set_port(port);
  return address;
}

struct FakeReadiness final : EventChannel::Readiness {
  void SetReady(bool is_ready, bool) override { ready = is_ready; }
  bool ready = false;
};

class Host {
 public:
  // `wire`: of iWARP devices; null: RoCE. `both`: a RoCE device for which
  // rdma_cm resolves all addresses, and an iWARP device beside it.
  Host(FakeNetwork& network, const std::string& name,
       const std::vector<std::string>& addresses, FakeTcpWire* wire = nullptr,
       bool both = false)
      : network_(network), rnic(network, name, Gids(addresses)) {
    std::vector<Rnic*> rnics = {&rnic};
    if (both) rnics.push_back(&AddSecond());
    FakeRnic& iwarp = both ? *second : rnic;
    if (wire != nullptr) iwarp.MakeIwarp(&tcp.emplace(*wire, iwarp));
    service = std::make_unique<Service>(rnics, NumberKey{{17, 0}});
    channel = service->OpenChannel(readiness);
  }
  ~Host() { service->CloseChannel(channel); }

  uint32_t Create(PortSpace space = PortSpace::kTcp, uint8_t qp_type = 2) {
    uint32_t number = 0;
    EXPECT_EQ(service->CreateId(*channel, ++last_uid_,
                                static_cast<uint16_t>(space), qp_type, &number),
              0);
    return number;
  }
  int Bind(uint32_t id, const SocketAddress& address) {
    return service->Bind(*channel, id, address);
  }
  int Resolve(uint32_t id, const SocketAddress& to) {
    return service->ResolveAddress(*channel, id, {}, to, 2000);
  }
  // A listener on all addresses.
  uint32_t Listener(uint16_t port, PortSpace space = PortSpace::kTcp,
                    uint32_t backlog = 10, uint8_t qp_type = 2) {
    const uint32_t id = Create(space, qp_type);
    EXPECT_EQ(Bind(id, Address("0.0.0.0", port)), 0);
    EXPECT_EQ(service->Listen(*channel, id, backlog), 0);
    return id;
  }
  // An id with a route to `to`, whose events have been read.
  uint32_t Routed(const SocketAddress& to, PortSpace space = PortSpace::kTcp,
                  uint8_t qp_type = 2) {
    const uint32_t id = Create(space, qp_type);
    EXPECT_EQ(Resolve(id, to), 0);
    EXPECT_EQ(NextType(), EventType::kAddrResolved);
    EXPECT_EQ(service->ResolveRoute(*channel, id, 2000), 0);
    EXPECT_EQ(NextType(), EventType::kRouteResolved);
    return id;
  }
  int Connect(uint32_t id, uint32_t qpn, const std::string& data = "") {
    return service->Connect(*channel, id, Params(qpn, data));
  }
  int Accept(uint32_t id, uint32_t qpn, const std::string& data = "") {
    const rdma_ucm_conn_param params = Params(qpn, data);
    return service->Accept(*channel, id, ++last_uid_, &params);
  }
  int Ready(uint32_t id) { return service->Accept(*channel, id, 0, nullptr); }
  uint32_t Destroy(uint32_t id) {
    uint32_t events = 0;
    EXPECT_EQ(service->DestroyId(*channel, id, &events), 0);
    return events;
  }

  std::optional<rdma_ucm_event_resp> Next(EventChannel* from = nullptr) {
    std::optional<rdma_ucm_event_resp> out;
    const int error = service->GetEvent(from != nullptr ? *from : *channel,
                                        [&](const rdma_ucm_event_resp& event) {
                                          out = event;
                                          return true;
                                        });
    EXPECT_EQ(error, out.has_value() ? 0 : EAGAIN);
    return out;
  }
  EventType NextType() {
    const auto event = Next();
    return event.has_value() ? static_cast<EventType>(event->event)
                             : static_cast<EventType>(999);
  }

  static rdma_ucm_conn_param Params(uint32_t qpn, const std::string& data) {
    rdma_ucm_conn_param params = {};
    params.qp_num = qpn;
    params.responder_resources = 3;
    params.initiator_depth = 5;
    params.retry_count = 7;
    params.rnr_retry_count = 6;
    params.valid = 1;
    params.private_data_len = static_cast<uint8_t>(data.size());
    std::memcpy(params.private_data, data.data(), data.size());
    return params;
  }

 private:
  static std::vector<wire::Gid> Gids(const std::vector<std::string>& texts) {
    std::vector<wire::Gid> gids;
    for (const std::string& text : texts) gids.push_back(GidOf(text));
    return gids;
  }

  // A device on the port of the first one.
  FakeRnic& AddSecond() {
    RnicInfo info = rnic.info();
    std::swap(info.node_guid[5], info.node_guid[7]);
    std::vector<RnicAddress> addresses = rnic.Addresses();
    for (RnicAddress& address : addresses) address.is_chosen = false;
    return second.emplace(network_, info, addresses);
  }

  FakeNetwork& network_;
  uint64_t last_uid_ = 1000;

 public:
  FakeRnic rnic;
  std::optional<FakeRnic> second;
  std::optional<FakeTcp> tcp;
  FakeReadiness readiness;
  std::unique_ptr<Service> service;
  EventChannel* channel = nullptr;
};

template <typename Param>
std::string DataOf(const Param& param) {
  return {reinterpret_cast<const char*>(param.private_data),
          param.private_data_len};
}

}  // namespace urnic::rdmacm
