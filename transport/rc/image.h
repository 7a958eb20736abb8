#pragma once

// Images of RC and XRC queue pairs (transport/work/image.h). They can be made
// in any state and between any two calls, if the caller has done its duties for
// the last burst (rc/qp.h) or will do them at the destination.
//
// An image omits everything that can be read again: the work request under
// transmission is loaded from its ring, as for a retransmission.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transport/rc/qp.h"
#include "transport/work/image.h"

namespace urnic::rc {

// Returns the size of the image of `qp` in bytes. If `out` is smaller, its
// contents are not an image.
size_t ExtractImage(const Qp& qp, Time now, std::span<uint8_t> out);

// Restores `qp` from the image, on the clock that shows `now`, and tells the
// program's rings how far they have been read. If the path of `qp` knows
// nothing yet, it takes over the knowledge of the image's path. REQUIRES: `qp`
// and its receive queue are new, and it has joined a path; the receive queue of
// an XRC target is on the same ring as before. A queue pair that has refused an
// image can only be destroyed.
//
// The image is not trusted: it is refused, or yields a queue pair in a state
// that it could have reached by itself. Keys and addresses are checked when
// they are used, as always.
ImageRefusal InsertImage(std::span<const uint8_t> image, Time now, Qp& qp);

// The same without the program's rings, for queries and tests only.
ImageRefusal ReadImage(std::span<const uint8_t> image, Time now, Qp& qp);

// Appends a line for each member that an image carries: "send.head 12".
void ShowState(const Qp& qp, Time now, std::string& out);

}  // namespace urnic::rc
