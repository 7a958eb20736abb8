#pragma once

// Who is told what happens to an iWARP connection of an engine.

#include "transport/iwarp/qp/events.h"

namespace urnic {

class IwarpConnection;  // datapath/engine/iwarp_connection.h

// The handler of a connection's events. Only ConnectionTable::DeliverEvents()
// calls it, so the handler may call the ConnectionTable. Thread: the holder of
// the engine's token; it must not wait or enter an engine.
class ConnectionEvents {
 public:
  // kRequest is the first event of a passive connection, and goes to the
  // listener. The handler takes the connection (set_owner()) and answers it now
  // or later, or refuses it (ConnectionTable::Forget()). All other events go to
  // the owner of the connection, in the order of iwarp::Event. kRetryRevision1
  // is never delivered.
  virtual void OnConnectionEvent(IwarpConnection& connection,
                                 iwarp::Event event) = 0;

 protected:
  ~ConnectionEvents() = default;
};

}  // namespace urnic
