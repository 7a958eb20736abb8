#pragma once

// The connection manager of one RNIC, as the rdma_cm device uses it. There are
// two kinds: ib_cm_port.h (RoCE: the MADs of InfiniBand's connection manager),
// and iw_cm_port.h (iWARP: TCP and MPA). They contain all differences between
// the two that programs see.
//
// The manager belongs to the holder of the engine's token. Calls return 0 or an
// errno. After an error nothing has changed, unless a comment says otherwise:
//   EINVAL  not in this state; no such handle (another thread has destroyed the
//           id); an argument is out of its range; no such queue pair
//   others  depend on the kind

#include <rdma/ib_user_verbs.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

#include "transport/base/lessor.h"
#include "transport/base/permutation.h"
#include "transport/base/time.h"
#include "verbs/rdmacm/cm_types.h"
#include "verbs/rdmacm/rnic.h"

namespace urnic::rdmacm {

class CmPort;

// Called under the token of the port's engine, in the middle of a call of the
// manager. So a handler must not call the manager, wait, or enter an engine.
class CmEvents {
 public:
  // A peer requests a connection. Returns the user of the connection, which
  // gets its events from now on; 0: there is no listener, or it is refused.
  virtual uint64_t OnRequest(CmPort& port, const CmRequest& request) = 0;
  // False: the connection is not needed any more. The port destroys it.
  virtual bool OnEvent(CmPort& port, const CmEvent& event) = 0;

 protected:
  ~CmEvents() = default;
};

class CmPort {
 public:
  // The arguments outlive this object.
  CmPort(Rnic& rnic, CmEvents& events) : rnic_(rnic), events_(events) {}
  virtual ~CmPort() = default;
  CmPort(const CmPort&) = delete;
  CmPort& operator=(const CmPort&) = delete;

  Rnic& rnic() { return rnic_; }
  const Rnic& rnic() const { return rnic_; }

  // --- Any thread, without the token ---------------------------------------
  // Opens the RNIC, once; 0 or its errno.
  int Open();
  bool is_open() const { return open_.load(); }

  // REQUIRED by the functions below: Open() has succeeded.

  // Calls `f()` under the token and returns its errno. REQUIRES: the caller
  // holds no lock that the events take.
  template <typename F>
  int Call(const F& f) {
    Context<F> context{this, &f, 0};
    rnic_.WithToken(Run<F>, &context);
    return context.error;
  }
  // The same, but waits only briefly. False: another thread still holds the
  // token.
  template <typename F>
  bool TryCall(const F& f) {
    Context<F> context{this, &f, 0};
    return rnic_.TryWithToken(Run<F>, &context);
  }
  // Passes the images of its connections, concatenated, to several calls of
  // `reply`; the engine runs between the calls. If `reply` returns false, stops
  // and returns false. REQUIRES: as Call().
  virtual bool SendImages(
      const std::function<bool(std::string_view)>& reply) = 0;

  // --- Under the token: inside of Call() -----------------------------------
  // Several ids may listen at one place: the port counts them.
  virtual int AddListener(const Listening& place) = 0;
  virtual void RemoveListener(const Listening& place) = 0;

  // `user`: gets the events of the connection.
  virtual int Connect(const ConnectRequest& request, uint64_t user,
                      CmHandle& out) = 0;
  virtual int Accept(CmHandle handle, const AcceptRequest& request) = 0;
  // The program has seen CONNECT_RESPONSE, and its queue pair is ready. iWARP
  // has no such event: EINVAL.
  virtual int Ready(CmHandle handle) = 0;
  virtual int Reject(CmHandle handle, uint8_t reason,
                     std::span<const uint8_t> private_data) = 0;
  virtual int Disconnect(CmHandle handle) = 0;
  // `event`: enum ibv_event_type.
  virtual int Notify(CmHandle handle, uint32_t event) = 0;
  // Ends the connection if it still exists. There are no more events, and the
  // handle becomes invalid.
  virtual void Destroy(CmHandle handle) = 0;

  // Sets the attributes, and their mask, with which the connection's queue pair
  // can go to out.qp_state, as far as the manager knows them.
  virtual int GetQpAttributes(CmHandle handle, ib_uverbs_qp_attr& out) = 0;

  // The number of connections, without listeners. Includes those that only wait
  // for their last packets to die.
  virtual uint32_t connections() const = 0;
  // The process ends: repeats each message that ends a connection every
  // `interval`, `repeats` times.
  virtual void HurryFarewells(Duration interval, uint8_t repeats) = 0;
  // How many peers have not answered such a message.
  virtual uint32_t unanswered_farewells() const = 0;

  // --- Any thread, even before Open() --------------------------------------
  // GetQpAttributes() before there is a connection, and for datagrams.
  virtual void GetInitialAttributes(bool is_datagram,
                                    ib_uverbs_qp_attr& out) const = 0;
  // Whether programs see the route to the peer as a path record.
  virtual bool has_path_records() const = 0;

 protected:
  Time now() const { return now_; }
  CmEvents& events() { return events_; }

 private:
  template <typename F>
  struct Context {
    CmPort* port;
    const F* f;
    int error;
  };
  template <typename F>
  static void Run(void* pointer, Time now) {
    auto* c = static_cast<Context<F>*>(pointer);
    c->port->now_ = now;
    c->error = (*c->f)();
    c->port->EndCall();
  }

  // The RNIC has been opened; under the token.
  virtual void Attach() = 0;
  // At the end of Call(), under the token.
  virtual void EndCall() = 0;

  Rnic& rnic_;
  CmEvents& events_;
  std::mutex open_mutex_;
  std::atomic<bool> open_ = false;
  Time now_;  // of the call; token holder only
};

// `key`: random. `lessor`: leases communication ids, or null. All outlive the
// port.
std::unique_ptr<CmPort> MakeCmPort(Rnic& rnic, CmEvents& events,
                                   const NumberKey& key, Lessor* lessor);

}  // namespace urnic::rdmacm
