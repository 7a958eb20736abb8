#pragma once

// Images of connections and datagram resolutions: transport/work/image.h. Each
// can be extracted in any state, even after its handle was destroyed, between
// any two calls of the manager. The image contains the communication ids, which
// the peer knows, the message to repeat, and the remaining time.
//
// To move one, call ExtractImage(), ConnectionManager::Forget(), and
// InsertImage() in the other manager, before a message arrives there. Create
// listeners there by Listen() before their requests are inserted.

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

// `to` continues with it, at time `now` of its clock; `out` is its handle
// there. On failure nothing changes.
//
// The image need not be trusted: it is either refused or gives a connection in
// a state that it could have reached by itself. It is also refused if
// ConnectionManager::Adopt() fails; the refusal says why.
ImageRefusal InsertImage(std::span<const uint8_t> image, Time now,
                         ConnectionManager& to, Handle& out);

// The same without a manager, only to look at it.
ImageRefusal ReadImage(std::span<const uint8_t> image, Time now,
                       MovedConnection& out);

// "ESTABLISHED".
const char* NameOf(State state);
// Appends a line for each member: "connection.local_comm_id 12".
void ShowState(const MovedConnection& moved, Time now, std::string& out);

}  // namespace urnic::cm
