#pragma once

// The facts about an object as JSON. Apart from facts.h because it needs a
// library.

#include <nlohmann/json.hpp>
#include <string>

#include "ras/facts/facts.h"

namespace urnic {

// An object with a member for each fact, in their order; without `details`,
// only those that people see at first. Numbers beyond 64 bits stay texts.
nlohmann::ordered_json JsonOf(const Facts& facts, bool details);

// As text, indented by `indent` spaces; negative: in one line. Programs choose
// their names: bytes that are not UTF-8 are replaced.
std::string JsonText(const nlohmann::ordered_json& json, int indent);

}  // namespace urnic
