#pragma once

// An address handle: the destination of datagrams, resolved once.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp_attributes.h"

namespace urnic::control {

// Any thread. The domain must outlive it.
class AddressHandle : public Tracked<AddressHandle> {
 public:
  // Resolves the destination's MAC, unless the destination is a group or the
  // MAC is known. This may take up to three seconds; the engine keeps running.
  // Errors: those of Qp::Modify() with an address vector.
  static absl::StatusOr<std::unique_ptr<AddressHandle>> Create(
      Pd& pd, const AddressVector& vector);
  // Requests that use the handle and have not been sent yet complete with an
  // error.
  ~AddressHandle();
  AddressHandle(const AddressHandle&) = delete;
  AddressHandle& operator=(const AddressHandle&) = delete;

  // For urnic_sq_wqe.to.
  uint32_t number() const { return number_; }
  const wire::Gid& destination() const { return destination_; }
  Pd& pd() const { return pd_; }
  const Owner& owner() const { return owner_; }

 private:
  AddressHandle(Pd& pd, uint32_t number, const wire::Gid& destination)
      : pd_(pd),
        number_(number),
        destination_(destination),
        owner_(ThisProcess()) {
    pd.device().ahs().Enter(*this, serial_);
  }

  Pd& pd_;
  const uint32_t number_;
  const wire::Gid destination_;
  const Owner owner_;
  uint64_t serial_ = 0;
};

}  // namespace urnic::control
