#pragma once

// What `urnic show` tells of the objects of a device (ras/facts). Names are
// those of iproute2's rdma where it has one.

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

// Appends the lines of a queue pair that has failed, of the objects that it
// uses, except for what is posted to a shared receive queue (that would take a
// lock), of the memory that the failure is about, and of its image. The token
// is held.
void DescribeWithQueues(Qp& qp, const Failure& failure, std::string& out);

// Appends the lines of some objects of that kind, from `serial` on. Returns the
// serial number to continue from; none: that was all. Any thread that does not
// hold the engine's token.
std::optional<uint64_t> DescribeObjects(Device& device, ObjectKind what,
                                        uint64_t serial, std::string& out);

}  // namespace urnic::control
