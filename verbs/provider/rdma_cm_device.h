#pragma once

#include "verbs/preload/preload_api.h"

namespace urnic::provider {

// The implementation of the device.
extern const urnic_rdma_cm_device kRdmaCmDevice;

// Gives the implementation of /dev/infiniband/rdma_cm (verbs/rdmacm) to the
// preload, if there is one. The service is only created by the first open.
void OfferRdmaCmDevice();

// Calls Service::BeginEnd(), at the end of the process, before the engines run
// for the last time.
void BeginRdmaCmEnd();
// Calls Service::TakeLeave() after that: disconnects, as the kernel does when
// it closes the descriptors of a program that has not disconnected.
void LeaveRdmaCmPeers();

}  // namespace urnic::provider
