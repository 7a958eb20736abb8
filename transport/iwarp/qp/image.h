#pragma once

// Images of iWARP connections (transport/work/image.h): TCP, the set-up and the
// framing of MPA, and the queue pair, if it has been given to the connection.
// The addresses are at the end, because only the caller knows them.
//
// An image can be made between any two calls, if the caller has done its duties
// for the last one: WritePayload() for the segments of Transmit(), and Settle()
// after received segments.
//
// Data in the program's memory and rings are read again. The image has the
// other bytes:
//   - the FPDUs of which a copy is kept, because they cannot be built again;
//   - the bytes of frames in custody, because they have been acknowledged or
//     SACKed. A receiver may drop bytes that it has only SACKed, but the peer
//     resends them only after a time-out;
//   - the headers of FPDUs whose payload was placed behind a hole;
//   - our frame of the set-up, and the received part of the peer's.
//
// Frames that arrive after the image was made are lost, as on a wire.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "transport/iwarp/qp/endpoint.h"
#include "transport/iwarp/tcp/four_tuple.h"
#include "transport/work/image.h"

namespace urnic::iwarp {

// Returns the size of the image of `endpoint` in bytes. If `out` is smaller,
// its contents are not an image. REQUIRES: Connect() or Open() has been called.
size_t ExtractImage(const Endpoint& endpoint, const tcp::FourTuple& tuple,
                    Time now, std::span<uint8_t> out);

// Reads the parameters with which the image's queue pair must be created. None:
// the connection has no queue pair yet, or no longer.
ImageRefusal ReadImageShape(std::span<const uint8_t> image,
                            std::optional<ImageShape>& out);

// The place where a connection continues.
struct Destination {
  // Those of the image.
  tcp::FourTuple tuple = {};
  // For the frames in custody.
  FrameMaker* frames = nullptr;
  // For the image's queue pair; null if it has none. It is new, as is its
  // receive queue, and its rings are those of the program. It outlives the
  // endpoint.
  rdmap::Qp* qp = nullptr;
  // Answers of a queue pair that is given to the connection later (Accept()).
  uint32_t answers = 0;
};

// Restores `endpoint` and its queue pair from the image, on the clock that
// shows `now`, and tells the program's rings how far they have been read.
// REQUIRES: the endpoint is new. If both have the same pools, the old endpoint
// is gone, because the new one needs its memory. An endpoint and a queue pair
// that have refused an image can only be destroyed.
//
// The image is not trusted: it is refused, or yields a connection in a state
// that it could have reached by itself. Keys and addresses are checked when
// they are used, as always.
ImageRefusal InsertImage(std::span<const uint8_t> image, Time now,
                         const Destination& destination, Endpoint& endpoint);

// The same without the program's rings, for queries and tests only: sets
// `destination.tuple`.
ImageRefusal ReadImage(std::span<const uint8_t> image, Time now,
                       Destination& destination, Endpoint& endpoint);

// Appends a line for each member that an image carries: "sender.una 12".
void ShowState(const Endpoint& endpoint, const tcp::FourTuple& tuple, Time now,
               std::string& out);

// How many objects of each kind an engine has, for `urnic state` only; most
// have no image.
struct ConnectionCounts {
  uint32_t listeners = 0;
  uint32_t connections = 0;  // which have one
  uint32_t half_open = 0;    // without those that are in SYN cookies
  uint32_t time_wait = 0;
};

// See above.
size_t ExtractImage(const ConnectionCounts& counts, std::span<uint8_t> out);
ImageRefusal ReadImage(std::span<const uint8_t> image, ConnectionCounts& out);
void ShowState(const ConnectionCounts& counts, std::string& out);

}  // namespace urnic::iwarp
