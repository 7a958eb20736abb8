#pragma once

// Formats the images of queue pairs and connections for `urnic state`
// (transport/work/image.h).

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace urnic {

struct ImageView {
  // Of a connection: its local queue pair, if it has one yet.
  std::optional<uint32_t> qpn;
  std::string line;     // the state in short
  std::string members;  // one line for each: "send.head 12"
};

// Restores a queue pair or connection from the image, which also checks it, and
// formats that. INVALID_ARGUMENT: not an image, an image of another version, or
// an impossible state; the message names the member.
absl::StatusOr<ImageView> ViewImage(std::span<const uint8_t> image);

}  // namespace urnic
