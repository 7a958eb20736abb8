#pragma once

// The shell commands of scripts. Nothing is run: settings of TCP that have an
// equivalent here are applied, and those that do not matter are ignored.

#include <string>

#include "tests/packetdrill/outcome.h"
#include "tests/packetdrill/stack.h"

namespace urnic::packetdrill {

Outcome ApplyCommand(const std::string& text, Stack& stack);

}  // namespace urnic::packetdrill
