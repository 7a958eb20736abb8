#pragma once

// How much of a link's rate arrives as payload, by loss and window: a table
// that changes when, and only when, the protocol's behaviour changes.

#include <string>

namespace urnic::sim {

// Deterministic. Kept in goldens/goodput.txt.
std::string GoodputTable();

}  // namespace urnic::sim
