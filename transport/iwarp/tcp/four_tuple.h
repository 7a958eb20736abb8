#pragma once

// The name of a connection.

#include <array>
#include <cstdint>

#include "transport/wire/address.h"

namespace urnic::tcp {

struct FourTuple {
  wire::Gid local;
  wire::Gid remote;
  uint16_t local_port = 0;
  uint16_t remote_port = 0;

  // For hashing only.
  std::array<uint64_t, 5> words() const {
    return {local.word(0), local.word(1), remote.word(0), remote.word(1),
            uint64_t{local_port} << 16 | remote_port};
  }
  friend bool operator==(const FourTuple&, const FourTuple&) = default;
};

}  // namespace urnic::tcp
