#pragma once

// What becomes of a connection (transport/iwarp/qp/endpoint.h), for those who
// hear of it.

#include <cstdint>

namespace urnic::iwarp {

// The events for the connection manager, in the order of a connection's life.
enum class Event : uint8_t {
  kNone,
  kRequest,    // Accept() or Reject() is next; private_data()
  kConnected,  // the queue pair is in RTS; private_data() of the reply
  // The end; exactly one of these follows Connect() or kRequest.
  kRejected,        // by the peer's program; private_data()
  kRetryRevision1,  // the peer may know only MPA revision 1: connect again,
                    // with another Endpoint
  kFailed,          // before it was connected: failure()
  kDisconnected,    // failure(), if it did not end in order
};

enum class Failure : uint8_t {
  kNone,
  kRefused,   // no listener
  kTimedOut,  // the peer does not answer
  kReset,     // the peer has closed the connection at a wrong moment
  kProtocol,  // the peer broke the rules, or its request cannot be met
  kAborted,   // by us
};

}  // namespace urnic::iwarp
