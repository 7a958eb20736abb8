#pragma once

#include "verbs/preload/preload_api.h"

namespace urnic::provider {

// What is behind the device.
extern const urnic_rdma_cm_device kRdmaCmDevice;

// Tells the preload, if there is one, what is behind /dev/infiniband/rdma_cm
// (verbs/rdmacm). Makes nothing: that is left to the first program that opens
// it.
void OfferRdmaCmDevice();

// At the end of the process, before engines run for the last time:
// Service::BeginEnd().
void BeginRdmaCmEnd();
// Then: what the kernel does when it closes the
// descriptors of a program that has not disconnected (Service::TakeLeave()).
void LeaveRdmaCmPeers();

}  // namespace urnic::provider
