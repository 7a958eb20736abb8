#pragma once

// Images of RC and XRC queue pairs: transport/work/image.h. Any state, between
// any two calls, as long as the caller has done its duty for the burst before
// (rc/qp.h) or will do it at the other place.
//
// What can be read again is not carried: the work request under transmission is
// loaded from its ring, as for a retransmission.

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

// Makes `qp` what the image says, on the clock that shows `now`, and tells the
// program's rings how far they have been read. REQUIRES: `qp` is new, and its
// receive queue too; that of an XRC target is on the ring on which it was. A
// queue pair that has refused an image can only be destroyed.
//
// The image may be anybody's: it is refused, or gives a queue pair that could
// have come to this state by itself. Keys and addresses are checked when they
// are used, as ever.
ImageRefusal InsertImage(std::span<const uint8_t> image, Time now, Qp& qp);

// The same for who has not got the program's rings, to look at it only.
ImageRefusal ReadImage(std::span<const uint8_t> image, Time now, Qp& qp);

// Appends a line for each member that an image carries: "send.head 12".
void ShowState(const Qp& qp, Time now, std::string& out);

}  // namespace urnic::rc
