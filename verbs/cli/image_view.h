#pragma once

// What `urnic state` shows of the images of queue pairs and of the connection
// manager's connections (transport/work/image.h).

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace urnic {

struct ImageView {
  // Of a connection: its queue pair here; none: it has none yet.
  std::optional<uint32_t> qpn;
  std::string line;     // the state in short
  std::string members;  // a line each: "send.head 12"
};

// Makes a queue pair or connection of the image, which checks it, and looks at
// that.
// INVALID_ARGUMENT: it is no image, or not of our version, or says what cannot
// be; the message names the member.
absl::StatusOr<ImageView> ViewImage(std::span<const uint8_t> image);

}  // namespace urnic
