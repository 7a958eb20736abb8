#pragma once

// Views of the images of iWARP (transport/iwarp/qp/image.h,
// transport/iwarp/rdmap/image.h). The rules are those of ViewImage().

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "verbs/cli/image_view.h"

namespace urnic {

// A connection, with its queue pair if it has one.
absl::StatusOr<ImageView> ViewIwarpConnection(std::span<const uint8_t> image);
// A queue pair without a connection.
absl::StatusOr<ImageView> ViewIwarpQp(std::span<const uint8_t> image);
// What has no image of its own.
absl::StatusOr<ImageView> ViewIwarpCounts(std::span<const uint8_t> image);

}  // namespace urnic
