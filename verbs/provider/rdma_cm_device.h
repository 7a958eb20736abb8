#pragma once

#include "verbs/preload/preload_api.h"

namespace urnic::provider {

// The implementation of the device.
extern const urnic_rdma_cm_device kRdmaCmDevice;

// Tells the preload, if there is one, what implements /dev/infiniband/rdma_cm
// (verbs/rdmacm). Creates nothing: the first open does that.
void OfferRdmaCmDevice();

// Call it at the end of the process, before the engines run for the last time:
// Service::BeginEnd().
void BeginRdmaCmEnd();
// Call it next: does what the kernel does when it closes the descriptors of a
// program that has not disconnected (Service::TakeLeave()).
void LeaveRdmaCmPeers();

}  // namespace urnic::provider
