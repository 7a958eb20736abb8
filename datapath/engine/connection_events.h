#pragma once

// Who is told what happens to an iWARP connection of an engine.

#include "transport/iwarp/qp/events.h"

namespace urnic {

class IwarpConnection;  // datapath/engine/iwarp_connection.h

// Told by ConnectionTable::DeliverEvents(), never within another call. The
// handler may call the ConnectionTable. Thread: the holder of the engine's
// token; it must not wait or enter an engine.
class ConnectionEvents {
 public:
  // kRequest, to the listener: a connection's first event. The handler takes
  // the connection (set_owner()) and answers it now or later, or refuses it
  // (ConnectionTable::Forget()). All other events: to the owner of the
  // connection, in the order of iwarp::Event. kRetryRevision1 is not among
  // them.
  virtual void OnConnectionEvent(IwarpConnection& connection,
                                 iwarp::Event event) = 0;

 protected:
  ~ConnectionEvents() = default;
};

}  // namespace urnic
