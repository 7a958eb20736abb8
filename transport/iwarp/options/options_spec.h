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
// Options that are not given have their defaults.

#include <string_view>

#include "absl/status/statusor.h"
#include "transport/iwarp/options/options.h"

namespace urnic::iwarp {

// An empty text gives all defaults. INVALID_ARGUMENT: the message names the
// item, the mistake, and the allowed values.
absl::StatusOr<Options> ParseOptions(std::string_view text);

}  // namespace urnic::iwarp
