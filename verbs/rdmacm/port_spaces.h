#pragma once

// The port numbers that ids hold, per port space: which id may bind, which may
// listen, and which gets a request. The rules are those of Linux
// (cma_alloc_any_port, cma_check_port), with one exception: anyone may use
// ports below 1024, because only this process uses these devices.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "transport/base/lessor.h"
#include "transport/base/permutation.h"
#include "verbs/rdmacm/id.h"

namespace urnic::rdmacm {

class PortSpaces {
 public:
  // The first and the last ephemeral port, from
  // /proc/sys/net/ipv4/ip_local_port_range or Linux's default.
  static std::pair<uint16_t, uint16_t> SystemRange();
  // Offers these ports of all spaces for lease.
  static void OfferSystemRange(LocalLessor& lessor);

  // The lessor leases the ephemeral ports. It outlives this object. `key`
  // determines the order of ports.
  PortSpaces(Lessor* lessor, const NumberKey& key)
      : lessor_(lessor), key_(key) {}
  ~PortSpaces();
  PortSpaces(const PortSpaces&) = delete;
  PortSpaces& operator=(const PortSpaces&) = delete;

  // Gives the id the port of its source address. If that is 0, gives it a free
  // port, and writes it there. 0, or
  //   EADDRNOTAVAIL  the port is held by an id whose address covers this one's
  //                  or is covered by it, or all ephemeral ports that are or
  //                  could be leased are in use
  //   EADDRINUSE     the port is held by an id with the same address, or is not
  //                  leased to us
  //   EPROTONOSUPPORT  an AF_IB service id of another service
  int Bind(Id& id);
  // Releases the id's port, if it has one.
  void Release(Id& id);

  // Whether an id that shares its port with others (reuse_address) may listen
  // on it. Errors: as for Bind().
  int CheckListen(const Id& id) const;

  // The youngest listener on that port for which `matches` is true; null if
  // there is none.
  Id* FindListener(PortSpace space, uint16_t port,
                   const std::function<bool(const Id&)>& matches) const;

 private:
  using Key = std::pair<PortSpace, uint16_t>;

  static int CheckPort(const std::vector<Id*>& holders, const Id& id,
                       bool reuse_address);
  static bool IsUnique(const std::vector<Id*>& holders, const Id& id);
  int BindAny(Id& id, PortSpace space);
  void Hold(Id& id, PortSpace space, uint16_t port);

  // None: no port in `ranges` is free.
  std::optional<uint16_t> FindFree(const Id& id, PortSpace space,
                                   const std::vector<NumberRange>& ranges);
  // Whether it is one of the leased ephemeral ports.
  bool IsLeased(PortSpace space, uint16_t port) const;

  Lessor* const lessor_;
  const NumberKey key_;
  uint64_t drawn_ = 0;
  // The place of the last port in the list of leased ports; keeps counting
  // beyond its end.
  uint64_t last_place_ = 0;
  std::map<Key, std::vector<Id*>> holders_;
  std::map<PortSpace, std::vector<NumberRange>> ephemeral_;
  std::set<Key> singles_;  // leased one by one
};

}  // namespace urnic::rdmacm
