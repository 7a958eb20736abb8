#pragma once

// Facts as JSON. The only user of the JSON library besides tests that judge by
// it: parsing that library takes longer than compiling all else in a file.

#include <string>
#include <vector>

#include "ras/facts/facts.h"

namespace urnic {

// An object with a member for each fact, in their order, in one line; without
// `details`, only those that people see at first. Numbers beyond 64 bits are
// texts. Programs choose their names: bytes that are not UTF-8 are replaced.
std::string JsonOf(const Facts& facts, bool details);

// An array of such objects: in one line, or indented (`pretty`).
std::string JsonOf(const std::vector<Facts>& list, bool details, bool pretty);

}  // namespace urnic
