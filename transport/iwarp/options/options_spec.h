#pragma once

// The text form of Options, for `urnic run --iwarp`:
//
//   SPEC = ITEM *( "," ITEM )          each key once
//   ITEM = "crc=" ( "on" | "off" )
//        | "markers=" ( "on" | "off" )
//        | "mpa=" ( "1" | "2" )
//        | "rtr=" ( "any" | "zero" | "write" | "read" | "none" )
//        | "ecn=" ( "off" | "classic" | "dctcp" )
//        | "timeout=" ( "off" | SECONDS )           SECONDS: 1 to 86400
//
// What is not given has its default.

#include <string_view>

#include "absl/status/statusor.h"
#include "transport/iwarp/options/options.h"

namespace urnic::iwarp {

// Empty: all defaults. INVALID_ARGUMENT: names the item, what is wrong with it,
// and what it may be.
absl::StatusOr<Options> ParseOptions(std::string_view text);

}  // namespace urnic::iwarp
