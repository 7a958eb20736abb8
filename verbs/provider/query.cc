#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs/control/limits.h"
#include "verbs/provider/context.h"
#include "verbs/provider/ops.h"
#include "verbs/provider/rdmav34.h"

namespace urnic::provider {

namespace {

// Vendor and part of devices without an IEEE number, as Linux rxe reports them.
constexpr uint32_t kNoVendor = 0xffffff;
// Of newer kernels' rdma/ib_user_verbs.h.
constexpr uint64_t kDeviceFlushGlobal = 1ull << 38;
constexpr uint64_t kDeviceAtomicWrite = 1ull << 40;
constexpr uint8_t kPhysLinkUp = 5;
constexpr uint8_t kPhysDisabled = 3;
constexpr uint8_t kPortNeedsGrh = 1;  // IBV_QPF_GRH_REQUIRED

void FillLimits(const urnic_device_identity& identity, ibv_device_attr& a) {
  using namespace control;
  std::strncpy(a.fw_ver, URNIC_FW_VERSION, sizeof(a.fw_ver) - 1);
  std::memcpy(&a.node_guid, identity.node_guid, sizeof(a.node_guid));
  a.sys_image_guid = a.node_guid;
  a.max_mr_size = kMaxMrBytes;
  a.page_size_cap = 0xfffff000;  // any: nothing here has pages
  a.vendor_id = kNoVendor;
  a.hw_ver = URNIC_HW_REVISION;
  a.max_qp = kMaxQps;
  a.max_qp_wr = kMaxQpWr;
  a.device_cap_flags =
      IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN |
      IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC |
      IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_MEM_WINDOW |
      IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS |
      IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
      IBV_DEVICE_PORT_ACTIVE_EVENT;
  a.max_sge = kMaxSge;
  a.max_sge_rd = kMaxSge;
  a.max_cq = kMaxCqs;
  a.max_cqe = kMaxCqe;
  a.max_mr = kMaxMrs;
  a.max_mw = kMaxMrs;  // of the same table
  a.max_pd = kMaxPds;
  a.max_qp_rd_atom = kMaxRdAtomic;
  a.max_qp_init_rd_atom = kMaxRdAtomic;
  a.max_res_rd_atom = kMaxQps * kMaxRdAtomic;
  // IBV_ATOMIC_GLOB would be true, as the CPU's own instructions execute them,
  // but UCX 1.13 takes it for no atomics at all: no hardware says so.
  a.atomic_cap = IBV_ATOMIC_HCA;
  a.max_mcast_grp = kMaxMcastGroups;
  a.max_mcast_qp_attach = kMaxMcastQpsPerGroup;
  a.max_total_mcast_qp_attach = kMaxMcastGroups * kMaxMcastQpsPerGroup;
  a.max_ah = kMaxAhs;
  a.max_srq = kMaxSrqs;
  a.max_srq_wr = kMaxSrqWr;
  a.max_srq_sge = kMaxSge;
  a.max_pkeys = static_cast<uint16_t>(identity.num_pkeys);
  a.local_ca_ack_delay = kLocalCaAckDelay;
  a.phys_port_cnt = 1;
}

// What this release of libibverbs can ask for.
uint64_t ExtendedFlags() {
  return (QpExBytes() >= kQpExBytes44 ? kDeviceAtomicWrite : 0) |
         (QpExBytes() >= kQpExBytes45 ? kDeviceFlushGlobal : 0);
}

// Memory is never pinned: pages come when they are touched, by the CPU.
void FillOnDemandPaging(ibv_device_attr_ex& a) {
  constexpr uint32_t kSendRecv =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  constexpr uint32_t kConnected = kSendRecv | IBV_ODP_SUPPORT_WRITE;
  constexpr uint32_t kReliable =
      kConnected | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
  a.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  a.odp_caps.per_transport_caps = {.rc_odp_caps = kReliable,
                                   .uc_odp_caps = kConnected,
                                   .ud_odp_caps = kSendRecv};
  a.xrc_odp_caps = kReliable;
}

}  // namespace

int QueryRtValues(ibv_context*, ibv_values_ex* values) {
  if ((values->comp_mask & ~uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) {
    return EINVAL;
  }
  if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
    // All in the one field, as other providers do: it is a count of cycles.
    values->raw_clock = {.tv_sec = 0, .tv_nsec = Environment::Now().ns()};
  }
  return 0;
}

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attr, size_t bytes) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  // Older programs have room for less, newer ones for more.
  ibv_device_attr_ex answer = {};
  FillLimits(Context::From(context)->device().identity(), answer.orig_attr);
  answer.device_cap_flags_ex =
      answer.orig_attr.device_cap_flags | ExtendedFlags();
  answer.phys_port_cnt_ex = 1;
  answer.completion_timestamp_mask = UINT64_MAX;
  answer.hca_core_clock = 1'000'000;  // kHz: nanoseconds
  answer.cq_mod_caps = {.max_cq_count = UINT16_MAX,
                        .max_cq_period = UINT16_MAX};
  FillOnDemandPaging(answer);
  std::memset(attr, 0, bytes);
  std::memcpy(attr, &answer, std::min(bytes, sizeof(answer)));
  return 0;
}

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
  if (port != control::kPortNumber) return EINVAL;
  const control::Device& device = Context::From(context)->device();
  const control::PortAttributes now = device.QueryPort();
  attr->state = now.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr->phys_state = now.active ? kPhysLinkUp : kPhysDisabled;
  attr->max_mtu = IBV_MTU_4096;
  attr->active_mtu = static_cast<ibv_mtu>(now.active_mtu);
  attr->gid_tbl_len = URNIC_GID_TABLE_LEN;
  attr->port_cap_flags = URNIC_PORT_CAP_FLAGS;
  attr->max_msg_sz = control::kMaxMessageBytes;
  attr->pkey_tbl_len = static_cast<uint16_t>(device.identity().num_pkeys);
  attr->bad_pkey_cntr = now.bad_pkeys;
  attr->qkey_viol_cntr = now.bad_qkeys;
  attr->max_vl_num = 1;
  attr->active_width = URNIC_PORT_ACTIVE_WIDTH;
  attr->active_speed = URNIC_PORT_ACTIVE_SPEED;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  attr->flags = kPortNeedsGrh;
  return 0;
}

}  // namespace urnic::provider
