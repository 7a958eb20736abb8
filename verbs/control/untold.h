#pragma once

// Keeps refusals that happen while a program has no RNIC open to report them.
// The next RNIC that is asked for its errors, or closes, reports them
// (NoteUntold() of ring_facts.h).
//
// Threads: any.

#include <functional>
#include <string>
#include <string_view>

#include "ras/errors/error_code.h"

namespace urnic::control {

// Keeps the last few refusals.
void KeepUntold(ErrorCode code, std::string_view text);
// Calls `tell` for all kept refusals, in order, and forgets them.
void TakeUntold(
    const std::function<void(ErrorCode code, const std::string& text)>& tell);

}  // namespace urnic::control
