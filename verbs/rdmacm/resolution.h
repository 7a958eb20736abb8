#pragma once

// The address resolution of an id, from rdma_resolve_addr() to the answer. No
// thread waits for it: the engine asks, and the holder of its token delivers
// the answer.

#include <atomic>
#include <memory>
#include <optional>

#include "transport/base/time.h"
#include "transport/net/path.h"
#include "transport/net/questions.h"
#include "verbs/rdmacm/address.h"
#include "verbs/rdmacm/cm_port.h"

namespace urnic::rdmacm {

struct Id;
class Resolution;

// The RNIC that leads to a destination, and the source address on it.
struct Way {
  CmPort* port = nullptr;
  SocketAddress source;
  SocketAddress destination;
};

// 0 if a path was found.
int ErrnoOf(net::PathStatus status);

class ResolutionEvents {
 public:
  // Called under the token of the port, and never within Ask().
  virtual void OnAnswer(Resolution& resolution, net::PathStatus status) = 0;

 protected:
  ~ResolutionEvents() = default;
};

class Resolution final : public net::PathWaiter {
 public:
  // `events` outlives it.
  Resolution(ResolutionEvents& events, std::shared_ptr<Id> id, const Way& way);
  ~Resolution();
  Resolution(const Resolution&) = delete;
  Resolution& operator=(const Resolution&) = delete;

  const std::shared_ptr<Id>& id() const { return id_; }
  const Way& way() const { return way_; }
  // The largest IP packet on the resolved path, in bytes; 0: unknown.
  uint32_t path_mtu() const { return path_mtu_; }

  // Asks for the path, unless Cancel() was called before. Returns the answer if
  // it is already known; otherwise OnAnswer() follows. Call it once. REQUIRES:
  // the port is open, and the caller holds neither its token nor a lock that
  // OnAnswer() takes.
  std::optional<net::PathStatus> Ask(Duration timeout);
  // After this returns, no call of OnAnswer() begins. REQUIRES: as Ask(), but
  // the port need not be open.
  void Cancel();

 private:
  void OnPath(net::PathStatus status, const net::Path& path) override;

  ResolutionEvents& events_;
  const std::shared_ptr<Id> id_;
  const Way way_;
  std::atomic<bool> cancelled_ = false;

  // Token holder only.
  bool asking_ = false;  // inside of Ask()
  std::optional<net::PathStatus> at_once_;
  uint32_t path_mtu_ = 0;
  net::QuestionId question_ = 0;  // 0: no answer is expected
};

}  // namespace urnic::rdmacm
