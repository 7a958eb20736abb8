#pragma once

// An rdma_cm device for the distribution's librdmacm in this process, over a
// simulated wire. It has a header of its own because <rdma/rdma_user_cm.h> and
// <rdma/rdma_cma.h> cannot be included together.

namespace urnic::rdmacm {

// Call it once, before librdmacm is used. The devices are those of URNIC_PORTS.
void InstallLibrdmacmDevice();

}  // namespace urnic::rdmacm
