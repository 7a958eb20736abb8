#pragma once

// One RNIC as the rdma_cm device sees it: its addresses, and access to its
// engine. engine_rnic.h implements it over verbs/control and the engine; tests
// have a fake. Its connection manager is in cm_port.h. Two devices may share a
// port: each is an RNIC, with its own addresses.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ras/errors/error_code.h"
#include "transport/base/time.h"
#include "transport/net/mad_handler.h"
#include "transport/net/path.h"
#include "transport/net/questions.h"
#include "transport/wire/address.h"

namespace urnic::rdmacm {

struct RnicInfo {
  std::string name;
  std::array<uint8_t, 8> node_guid = {};  // as on the wire
  // The scope of link-local addresses that selects this device: the index of
  // its kernel interface. 0: it has no interface, and every scope without an
  // interface selects it.
  uint32_t interface_index = 0;
  std::vector<uint16_t> pkeys = {0xffff};  // iWARP: none
  // Of an iWARP device: its only GID, which is made from the MAC.
  wire::Gid mac_gid;
  // Acknowledgements are delayed by at most 4.096 us << ack_delay_code
  // (local_ca_ack_delay).
  uint8_t ack_delay_code = 0;
};

// An address of a device. The GID table of a RoCE device has it twice, once for
// each version of RoCE. A caller uses v2, as Linux does by default
// (default_roce_mode). The called side answers with the version of the caller.
struct RnicAddress {
  wire::Gid gid;
  uint8_t gid_index = 0;  // RoCE v2
  // The prefix length of the link, within the GID's 128 bits (IPv4: 96 or
  // more).
  uint8_t prefix_bits = 0;
  uint8_t gid_index_v1 = 0;
  // rdma_cm uses this device for the address (urnic_rdma_cm_kind()). If false,
  // it uses another device of the port, and this one has the address only for
  // peers that connect to it.
  bool is_chosen = true;
};

// A refused call or a failure, for `urnic show error` and the logs.
struct Notice {
  ErrorCode code = {};
  std::string text;  // call, id and reason
  uint32_t qpn = 0;  // of the id's queue pair; 0: none yet
  bool has_peer = false;
  wire::Gid remote = {};
  uint16_t remote_port = 0;
};

class TcpConnections;

class Rnic {
 public:
  virtual ~Rnic() = default;

  // --- Any thread, also while the device is not open ----------------------
  virtual const RnicInfo& info() const = 0;
  // The addresses of its port as they are now.
  virtual std::vector<RnicAddress> Addresses() const = 0;
  // The route of packets to a `remote` that is on no link of our addresses.
  struct Route {
    wire::Gid source;
    uint8_t prefix_bits = 0;  // longer: a better match
  };
  // None: no route leads there.
  virtual std::optional<Route> RouteTo(const wire::Gid& remote) const = 0;
  // The largest MTU code that is possible now (1: 256 bytes .. 5: 4096 bytes),
  // on a path for IP packets of at most `path_mtu` bytes; 0: unknown.
  virtual uint8_t MtuCode(uint32_t path_mtu) const = 0;
  // The time of the clock that WithToken() and net::MadHandler use.
  virtual Time Now() const = 0;

  // The connections of an iWARP device, while it is open; null: it is a RoCE
  // device. Lives as long as the RNIC.
  virtual TcpConnections* tcp() { return nullptr; }

  // --- Any thread, outside of the token; may wait -------------------------
  // Opens the device for the life of the process. Returns 0, or an errno; then
  // the caller may try again.
  virtual int Open() = 0;

  // Reports that a call was refused. False: this process does not have the
  // device open, and the call was not reported.
  virtual bool NoteRefusal(const Notice& notice) = 0;

  // REQUIRED by the functions below: Open() has succeeded.

  // Takes the engine's token, waits for it if necessary, and calls `action`.
  virtual void WithToken(void (*action)(void* context, Time now),
                         void* context) = 0;
  // The same, but waits only briefly. False: another thread still holds the
  // token, and `action` was not called.
  virtual bool TryWithToken(void (*action)(void* context, Time now),
                            void* context) = 0;

  // Runs one iteration of the engine, as a polling thread does, and pauses
  // briefly. For a thread that only waits.
  virtual void Wait() = 0;

  // --- While the token is held --------------------------------------------
  // Reports that a connection could not be made. May be called under the
  // service's mutex.
  virtual void NoteFailure(const Notice& notice) = 0;

  // Asks for the path to a GID. `waiter` is called once, possibly within this
  // call. It gets kNoAnswer when `timeout` has passed. Returns 0 if there are
  // too many questions; then `waiter` is not called.
  virtual net::QuestionId AskPath(const net::PathQuery& query,
                                  net::PathWaiter* waiter,
                                  Duration timeout) = 0;
  // Cancels the question: `waiter` will not be called.
  virtual void CancelPath(net::QuestionId id) = 0;

  // --- RoCE, while the token is held ---------------------------------------
  // The handler gets the MADs of the connection manager, for the life of the
  // process.
  virtual void ServeMads(net::MadHandler& handler) = 0;
  // Sends a MAD from QP1 to QP1 as soon as there is a path. A MAD that cannot
  // be sent is lost, as on the wire; the connection manager will try again.
  virtual void SendMad(std::span<const uint8_t, 256> mad,
                       const net::PathQuery& to) = 0;
};

}  // namespace urnic::rdmacm
