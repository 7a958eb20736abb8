#pragma once

// The connection manager of one RNIC, between the engine that brings it MADs
// and the rdma_cm device that calls it and hears its events.
//
// The manager belongs to the holder of the engine's token. Its events arrive in
// the middle of its calls, so a handler must not call it. A handler records
// further work with Later(), and the work is done when the call is over.

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "transport/cm/connection_manager.h"
#include "verbs/rdmacm/rnic.h"

namespace urnic::rdmacm {

class CmPort;

class CmEvents {
 public:
  // Called under the token of the port's engine. Must not wait or enter an
  // engine.
  virtual void OnCmEvent(CmPort& port, const cm::Event& event) = 0;

 protected:
  ~CmEvents() = default;
};

class CmPort final : public net::MadHandler, private cm::Sink {
 public:
  // `key`: random. `lessor`: leases communication ids, or null. The other
  // arguments outlive this object.
  CmPort(Rnic& rnic, CmEvents& events, const NumberKey& key, Lessor* lessor);

  Rnic& rnic() { return rnic_; }
  const Rnic& rnic() const { return rnic_; }

  // Opens the RNIC, once; 0 or its errno. Any thread, outside of the token.
  int Open();
  bool is_open() const { return open_.load(); }

  // Calls `f(manager, now, sink)` under the token and returns its errno.
  // REQUIRES: Open() has succeeded; outside of the token, and of every lock
  // that OnCmEvent() takes.
  template <typename F>
  int Call(const F& f) {
    Context<F> context{this, &f, 0};
    rnic_.WithToken(Run<F>, &context);
    return context.error;
  }
  // The same, but waits only briefly. False: another thread has the token for
  // longer.
  template <typename F>
  bool TryCall(const F& f) {
    Context<F> context{this, &f, 0};
    return rnic_.TryWithToken(Run<F>, &context);
  }

  // The number in the manager, without listeners. REQUIRES: as Call().
  uint32_t Connections();
  // Passes their images (transport/cm/image.h), concatenated, to several calls
  // of `reply`; the engine runs between the calls. Stops when `reply` returns
  // false, and returns false. REQUIRES: as Call().
  bool SendImages(const std::function<bool(std::string_view)>& reply);

  // --- While the token is held ---------------------------------------------
  // Work that an event handler records for the end of this call of the manager.
  // Adopt: gives a new connection its user. If the peer repeats its request, an
  // MRA asks it to wait.
  void LaterAdopt(cm::Handle handle, uint64_t user) {
    later_.push_back({What::kAdopt, handle, user});
  }
  void LaterPrepareMra(cm::Handle handle) {
    later_.push_back({What::kPrepareMra, handle, 0});
  }
  // Answers the new connection with a REJ of this reason, or a SIDR_REP of this
  // status, and destroys it.
  void LaterRefuse(cm::Handle handle, uint16_t reason) {
    later_.push_back({What::kRefuse, handle, reason});
  }
  // Ends the connection and frees its handle.
  void LaterForget(cm::Handle handle) {
    later_.push_back({What::kForget, handle, 0});
  }
  void LaterRefuseSidr(cm::Handle handle, uint8_t status) {
    later_.push_back({What::kRefuseSidr, handle, status});
  }

  // The manager has one listener for each service id, with a reference count.
  // The private data of a request decides which id of the program gets it.
  // Returns 0 or an errno.
  int AddListener(cm::ConnectionManager& cm, uint64_t service_id);
  void RemoveListener(cm::ConnectionManager& cm, uint64_t service_id);

  // --- net::MadHandler -------------------------------------------------------
  RxVerdict OnMad(std::span<const uint8_t> mad, const net::PathQuery& from,
                  Time now) override;
  void OnTimer(Time now) override;
  Time NextDeadline() const override;
  bool IsQpnBusy(Qpn qpn) const override { return cm_->IsQpnBusy(qpn); }

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
    c->error = (*c->f)(*c->port->cm_, now, *c->port);
    c->port->DoLater(now);
  }

  enum class What : uint8_t {
    kAdopt,
    kPrepareMra,
    kRefuse,
    kRefuseSidr,
    kForget,
  };
  struct Deferred {
    What what;
    cm::Handle handle;
    uint64_t value;
  };
  struct Listener {
    uint64_t service_id;
    cm::Handle handle;
    uint32_t uses;
  };

  void DoLater(Time now);
  void SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
               const net::PathQuery& to) override;
  void OnEvent(const cm::Event& event) override;

  Rnic& rnic_;
  CmEvents& events_;
  const cm::Config config_;
  std::mutex open_mutex_;
  std::atomic<bool> open_ = false;
  // Created before the RNIC is opened; afterwards token holder only.
  std::optional<cm::ConnectionManager> cm_;

  std::vector<Deferred> later_;
  std::vector<Listener> listeners_;
};

}  // namespace urnic::rdmacm
