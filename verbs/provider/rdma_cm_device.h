#pragma once

namespace urnic::provider {

// Tells the preload, if there is one, what is behind /dev/infiniband/rdma_cm
// (verbs/rdmacm). Makes nothing: that is left to the first program that opens
// it.
void OfferRdmaCmDevice();

}  // namespace urnic::provider
