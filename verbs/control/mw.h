#pragma once

// A memory window: a key for the peer, which a queue pair binds to a part of a
// region by a work request, without a control call. transport/mem implements
// binding.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "verbs/control/pd.h"

namespace urnic::control {

// Any thread. The domain must outlive it.
class Mw : public Tracked<Mw> {
 public:
  enum class Type : uint8_t { k1 = 1, k2 = 2 };

  // RESOURCE_EXHAUSTED: the device's limit, which regions and windows share.
  static absl::StatusOr<std::unique_ptr<Mw>> Create(Pd& pd, Type type);
  // Unbinds it.
  ~Mw();
  Mw(const Mw&) = delete;
  Mw& operator=(const Mw&) = delete;

  // The initial key: binding changes its lower eight bits.
  uint32_t key() const { return key_; }
  Type type() const { return type_; }
  Pd& pd() const { return pd_; }
  const Owner& owner() const { return owner_; }

 private:
  Mw(Pd& pd, uint32_t key, Type type)
      : pd_(pd), key_(key), type_(type), owner_(ThisProcess()) {
    pd.device().mws().Enter(*this, serial_);
  }

  Pd& pd_;
  const uint32_t key_;
  const Type type_;
  const Owner owner_;
  uint64_t serial_ = 0;
};

}  // namespace urnic::control
