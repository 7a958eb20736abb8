#pragma once

// What `urnic show` prints of the objects of a device (ras/facts). Names are
// those of iproute2's rdma tool where it has one.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "datapath/engine/failures.h"

namespace urnic::control {

class Device;
class Qp;

enum class ObjectKind : uint8_t {
  kDev,
  kLink,
  kQp,
  kCq,
  kMr,
  kMw,
  kPd,
  kSrq,
  kAh,
  kTcp,  // listeners and connections of iWARP
};

// The kind with this name, as in "qp".
std::optional<ObjectKind> ObjectKindOf(std::string_view name);

// Appends lines about a queue pair that has failed: the queue pair itself, the
// objects that it uses, the memory that the failure names, and its image. The
// requests of a shared receive queue are left out, because they need a lock.
// Call it with the token held.
void DescribeWithQueues(Qp& qp, const Failure& failure, std::string& out);

// Appends the lines of some objects of the kind `what`, from `serial` on.
// Returns the serial number to continue from; none: there are no more. Any
// thread that does not hold the engine's token.
std::optional<uint64_t> DescribeObjects(Device& device, ObjectKind what,
                                        uint64_t serial, std::string& out);

}  // namespace urnic::control
