#pragma once

// Refusals of a program that has no RNIC open, which could tell of them. The
// next one that is asked for its errors, or closes, does (NoteUntold() of
// ring_facts.h).
//
// Threads: any.

#include <functional>
#include <string>
#include <string_view>

#include "ras/errors/error_code.h"

namespace urnic::control {

// Keeps the last few.
void KeepUntold(ErrorCode code, std::string_view text);
// Calls `tell` for all, in order, and forgets them.
void TakeUntold(
    const std::function<void(ErrorCode code, const std::string& text)>& tell);

}  // namespace urnic::control
