#pragma once

// The question where an id's destination is, from rdma_resolve_addr() to the
// answer. Nobody waits for it: the engine asks, and whoever holds its token
// brings the answer.

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

// Where an address leads: through which RNIC, and from which of its addresses.
struct Way {
  CmPort* port = nullptr;
  SocketAddress source;
  SocketAddress destination;
};

class ResolutionEvents {
 public:
  // Under the token of the port, and not within Ask().
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
  // Of the answer: the largest IP packet to there, in bytes; 0: not known.
  uint32_t path_mtu() const { return path_mtu_; }

  // Asks, unless Cancel() was called before, and returns the answer if it is
  // known at once; else OnAnswer() follows. Once. REQUIRES: the port is open;
  // outside of its token, and of every lock that OnAnswer() takes.
  std::optional<net::PathStatus> Ask(Duration timeout);
  // No OnAnswer() begins any more when this returns. REQUIRES: as Ask(), but
  // the port need not be open.
  void Cancel();

 private:
  void OnPath(net::PathStatus status, const net::Path& path) override;

  ResolutionEvents& events_;
  const std::shared_ptr<Id> id_;
  const Way way_;
  std::atomic<bool> cancelled_ = false;

  // The token holder's.
  bool asking_ = false;  // inside of Ask()
  std::optional<net::PathStatus> at_once_;
  uint32_t path_mtu_ = 0;
  net::QuestionId question_ = 0;  // 0: none that can be answered
};

}  // namespace urnic::rdmacm
