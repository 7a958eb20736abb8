#pragma once

// Images of queue pairs of iWARP that have no connection
// (transport/work/image.h): not yet, or no longer. If there is a connection,
// they are parts of its image (transport/iwarp/qp/image.h).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transport/iwarp/rdmap/qp.h"
#include "transport/work/image.h"

namespace urnic::rdmap {

// Returns the size of the image of `qp` in bytes. If `out` is smaller, its
// contents are not an image. REQUIRES: the state is not RTS.
size_t ExtractImage(const Qp& qp, Time now, std::span<uint8_t> out);

// Restores `qp` from the image, on the clock that shows `now`, and tells the
// program's rings how far they have been read. REQUIRES: `qp` and its receive
// queue are new. A queue pair that has refused an image can only be destroyed.
//
// The image is not trusted: it is refused, or yields a queue pair in a state
// that it could have reached by itself.
ImageRefusal InsertImage(std::span<const uint8_t> image, Time now, Qp& qp);

// The same without the program's rings, for queries and tests only.
ImageRefusal ReadImage(std::span<const uint8_t> image, Time now, Qp& qp);

// Appends a line for each member that an image carries: "requester.head 12".
void ShowState(const Qp& qp, Time now, std::string& out);

}  // namespace urnic::rdmap
