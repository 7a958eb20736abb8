#pragma once

// An rdma_cm device for the distribution's librdmacm in this process, over a
// wire of our own. Apart from its users because <rdma/rdma_user_cm.h> and
// <rdma/rdma_cma.h> cannot be included together.

namespace urnic::rdmacm {

// Before librdmacm is used, once. Devices are those of URNIC_PORTS.
void InstallLibrdmacmDevice();

}  // namespace urnic::rdmacm
