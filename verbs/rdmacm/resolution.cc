#include "verbs/rdmacm/resolution.h"

#include <cerrno>
#include <utility>

#include "transport/base/check.h"

namespace urnic::rdmacm {

int ErrnoOf(net::PathStatus status) {
  switch (status) {
    case net::PathStatus::kFound:
      return 0;
    case net::PathStatus::kMixedFamilies:
      return EINVAL;
    case net::PathStatus::kNotLocal:
      return ENODEV;
    case net::PathStatus::kNoRoute:
      return ENETUNREACH;
    case net::PathStatus::kNoAnswer:
      return ETIMEDOUT;
    case net::PathStatus::kNoRoom:
      break;
  }
  return ENOMEM;
}

Resolution::Resolution(ResolutionEvents& events, std::shared_ptr<Id> id,
                       const Way& way)
    : events_(events), id_(std::move(id)), way_(way) {}

Resolution::~Resolution() { URNIC_CHECK(question_ == 0); }

std::optional<net::PathStatus> Resolution::Ask(Duration timeout) {
  way_.port->Call([&] {
    if (cancelled_.load()) return 0;
    asking_ = true;
    const net::QuestionId question = way_.port->rnic().AskPath(
        {.local = way_.source.gid(), .remote = way_.destination.gid()}, this,
        timeout);
    asking_ = false;
    if (question == 0) at_once_ = net::PathStatus::kNoRoom;
    if (!at_once_.has_value()) question_ = question;
    return 0;
  });
  return at_once_;
}

void Resolution::Cancel() {
  // Set this before looking at the port: if the port opens now, nothing is
  // asked.
  cancelled_.store(true);
  if (!way_.port->is_open()) return;
  way_.port->Call([&] {
    if (question_ != 0) way_.port->rnic().CancelPath(question_);
    question_ = 0;
    return 0;
  });
}

void Resolution::OnPath(net::PathStatus status, const net::Path& path) {
  if (status == net::PathStatus::kFound) path_mtu_ = path.mtu;
  if (asking_) {
    at_once_ = status;
    return;
  }
  question_ = 0;
  // This must be the last statement: OnAnswer() may destroy this object.
  events_.OnAnswer(*this, status);
}

}  // namespace urnic::rdmacm
