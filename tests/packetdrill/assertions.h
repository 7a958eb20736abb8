#pragma once

// The code of scripts: "assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd". The
// comparisons of Python, for whole numbers.

#include <set>
#include <string>

#include "tests/packetdrill/outcome.h"
#include "tests/packetdrill/stack.h"

namespace urnic::packetdrill {

// Checks the assertions of `code`. Those that need something without an
// equivalent here are skipped, and what they need is added to `skipped`.
Outcome CheckAssertions(const std::string& code, const Stack& stack,
                        std::set<std::string>& skipped);

}  // namespace urnic::packetdrill
