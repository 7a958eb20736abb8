#pragma once

// An rdma_cm id as a list of facts (ras/facts), with the names of iproute2's
// rdma tool: `urnic show cm_id`. Thread: the holder of the service's mutex.

#include <string>
#include <string_view>

#include "verbs/rdmacm/id.h"

namespace urnic::rdmacm {

// "LISTEN".
const char* StateName(IdState state);

// `link`: that of the device, as in "urnic0/1"; "urnic0/-" for an id that is
// bound to no port; "-" for an id without a device.
void DescribeId(const Id& id, std::string_view link, std::string& out);

}  // namespace urnic::rdmacm
