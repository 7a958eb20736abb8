#pragma once

// Images of connections and datagram resolutions: transport/work/image.h. Any
// of them, in any state, those included whose handle is destroyed, between any
// two calls of the manager. With it go the communication ids, which the peer
// knows, the message that is to be repeated, and what is left of its time.
//
// To move one: ExtractImage(), ConnectionManager::Forget(), and InsertImage()
// at the other place, before a message comes there. Listeners are made anew by
// Listen(), before the requests that they have heard come.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transport/cm/connection_manager.h"
#include "transport/work/image.h"

namespace urnic::cm {

// Writes the image of the connection or resolution with this local
// communication id. Returns the image's size in bytes; 0: the id is not in use.
// If `out` is smaller than that, its contents are not an image.
size_t ExtractImage(const ConnectionManager& from, uint32_t local_comm_id,
                    Time now, std::span<uint8_t> out);

// `to` goes on with it, on the clock that shows `now`; `out` is its handle
// there. A manager that refuses has changed nothing.
//
// The image may be anybody's: it is refused, or gives a connection that could
// have come to this state by itself. Besides, it is refused where
// ConnectionManager::Adopt() fails, and the refusal says why.
ImageRefusal InsertImage(std::span<const uint8_t> image, Time now,
                         ConnectionManager& to, Handle& out);

// The same for who has no manager, to look at it only.
ImageRefusal ReadImage(std::span<const uint8_t> image, Time now,
                       MovedConnection& out);

// "ESTABLISHED".
const char* NameOf(State state);
// Appends a line for each member: "connection.local_comm_id 12".
void ShowState(const MovedConnection& moved, Time now, std::string& out);

}  // namespace urnic::cm
