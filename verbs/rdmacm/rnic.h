#pragma once

// One RNIC as the rdma_cm device sees it: its addresses, and a way into its
// engine. Implemented over verbs/control and the engine by engine_rnic.h, and
// by a fake in tests. Its connection manager lives above (cm_port.h).

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/base/time.h"
#include "transport/net/mad_handler.h"
#include "transport/net/path.h"
#include "transport/net/questions.h"
#include "transport/wire/address.h"

namespace urnic::rdmacm {

struct RnicInfo {
  std::string name;
  std::array<uint8_t, 8> node_guid = {};  // as on the wire
  // What scopes of link-local addresses mean this device: the index of its
  // kernel interface; 0: it has none, and every scope without one does.
  uint32_t interface_index = 0;
  std::vector<uint16_t> pkeys = {0xffff};
  // 4.096 us << this: how late it may acknowledge (local_ca_ack_delay).
  uint8_t ack_delay_code = 0;
};

// An address of a device: a GID that its table has once for either version of
// RoCE. Whoever calls uses v2, as Linux does unless told otherwise
// (default_roce_mode); who answers uses what the caller used.
struct LocalAddress {
  wire::Gid gid;
  uint8_t gid_index = 0;  // RoCE v2
  // How many of the GID's 128 bits name the link (IPv4: 96 and more).
  uint8_t prefix_bits = 0;
  uint8_t gid_index_v1 = 0;
};

class Rnic {
 public:
  virtual ~Rnic() = default;

  // --- Any thread, also while the device is not open ----------------------
  virtual const RnicInfo& info() const = 0;
  // The GID table as it is now.
  virtual std::vector<LocalAddress> Addresses() const = 0;
  // How packets to `remote` leave that is on no link of these addresses.
  struct Route {
    wire::Gid source;
    uint8_t prefix_bits = 0;  // how well the route fits
  };
  // Nothing: no route leads there.
  virtual std::optional<Route> RouteTo(const wire::Gid& remote) const = 0;
  // The largest path MTU at the moment: 1: 256 bytes .. 5: 4096 bytes.
  // On a way that takes IP packets of `path_mtu` bytes at most; 0: not known.
  virtual uint8_t MtuCode(uint32_t path_mtu) const = 0;
  // Of the clock that WithToken() and net::MadHandler show.
  virtual Time Now() const = 0;

  // --- Any thread, outside of the token; may wait -------------------------
  // Opens the device, for good, and attaches the handler, which lives as long
  // as the process. 0, or an errno, and then it can be tried again.
  virtual int Open(net::MadHandler& handler) = 0;

  // The rest: after Open().

  // Takes the engine's token, waiting if it must, and calls `action`.
  virtual void WithToken(void (*action)(void* context, Time now),
                         void* context) = 0;
  // The same for a moment at most: false if another thread has the token for
  // longer, and then nothing was called.
  virtual bool TryWithToken(void (*action)(void* context, Time now),
                            void* context) = 0;

  // Looks once for what has come and what is due, as a thread that polls does,
  // and lets a moment pass: for a thread that has nothing else to do but wait.
  virtual void Wait() = 0;

  // --- While the token is held --------------------------------------------
  // Asks for the way to a GID. `waiter` is called once, perhaps within this
  // call; kNoAnswer when `timeout` has passed. 0: too many questions, and
  // nothing was asked.
  virtual net::QuestionId AskPath(const net::PathQuery& query,
                                  net::PathWaiter* waiter,
                                  Duration timeout) = 0;
  // `waiter` is not called (any more).
  virtual void CancelPath(net::QuestionId id) = 0;

  // Sends a MAD from QP1 to QP1, as soon as there is a way. What cannot be sent
  // is lost, as on the wire: the connection manager will try again.
  virtual void SendMad(std::span<const uint8_t, 256> mad,
                       const net::PathQuery& to) = 0;
};

}  // namespace urnic::rdmacm
