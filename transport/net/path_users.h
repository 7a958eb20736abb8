#pragma once

// Others than queue pairs and address handles that send along paths, such as
// the connections of iWARP. When a network's addresses, routes or neighbours
// change, it updates the paths of all its users.

#include <functional>

#include "transport/net/path.h"

namespace urnic::net {

// Thread: the holder of the engine's token.
class PathUsers {
 public:
  // Calls `visit` for each path that packets are sent along. `visit` may change
  // the path, and may end in another ForEachPath(). It does not start or stop
  // the use of any path.
  virtual void ForEachPath(const std::function<void(Path&)>& visit) = 0;

 protected:
  ~PathUsers() = default;
};

}  // namespace urnic::net
