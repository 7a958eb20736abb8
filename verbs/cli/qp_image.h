#pragma once

// What `urnic state` shows of the images of queue pairs
// (transport/work/image.h).

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace urnic {

struct QpView {
  uint32_t qpn = 0;
  std::string line;     // the state in short
  std::string members;  // a line each: "send.head 12"
};

// Makes a queue pair of the image, which checks it, and looks at that.
// INVALID_ARGUMENT: it is no image, or not of our version, or says what cannot
// be; the message names the member.
absl::StatusOr<QpView> ViewQpImage(std::span<const uint8_t> image);

}  // namespace urnic
