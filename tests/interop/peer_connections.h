#pragma once

// The rdma_cm ids of verbs_peer, by name, and what happens to them. One thread.
// If a call fails, Refused is thrown, as in peer_objects.h.

#include <rdma/rdma_cma.h>

#include <map>
#include <string>
#include <vector>

#include "tests/interop/peer_objects.h"

namespace urnic::interop {

// All ids of the program. They live until Destroy() or Close(); the queue pair
// of an id must be destroyed before it.
class Connections {
 public:
  // Throws Refused if no id has this name.
  rdma_cm_id* id(const std::string& name) const;

  // A listener: name, address, port.
  void Listen(const Words& words);
  // An id with a route to a listener: name, address, port.
  void Resolve(const Words& words);
  // Asks for a connection, or grants one: id, data, reads (that it answers),
  // depth (reads that it has under way).
  void Connect(const Words& words);
  void Accept(const Words& words);
  void Reject(const Words& words);  // id, data
  void Disconnect(const Words& words);
  // The next event of an id and of those that it has accepted, or "event=none"
  // after some seconds. A request makes a new id of the name in `as`.
  std::string NextEvent(const Words& words);

  void Destroy(const std::string& name);
  void Close();

 private:
  rdma_cm_id* AddId(const std::string& name);
  // False: nothing has happened in time.
  bool Await(rdma_event_channel* channel, double seconds);
  // Waits for `wanted` and nothing else.
  void Expect(rdma_cm_id* id, rdma_cm_event_type wanted);

  std::map<std::string, rdma_cm_id*> ids_;
  // One for each id that we have made. Accepted ids have their listener's.
  std::vector<rdma_event_channel*> channels_;
};

}  // namespace urnic::interop
