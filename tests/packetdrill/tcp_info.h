#pragma once

// The fields of the kernel's struct tcp_info that our TCP has, too.

#include <cstdint>
#include <optional>
#include <string_view>

#include "tests/packetdrill/stack.h"

namespace urnic::packetdrill {

// A field of the live connection, or a constant that scripts compare it with.
// Unset: there is no equivalent.
std::optional<int64_t> TcpInfo(std::string_view name, const Stack& stack);

}  // namespace urnic::packetdrill
