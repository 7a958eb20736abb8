#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "datapath/engine/environment.h"
#include "ras/errors/refusal.h"
#include "verbs/control/device_kind.h"
#include "verbs/control/limits.h"
#include "verbs/provider/context.h"
#include "verbs/provider/ops.h"
#include "verbs/provider/private_interface.h"

namespace urnic::provider {

namespace {

// Vendor and part of devices without an IEEE number, as Linux rxe reports them.
constexpr uint32_t kNoVendor = 0xffffff;
// From rdma/ib_user_verbs.h of newer kernels.
constexpr uint64_t kDeviceFlushGlobal = 1ull << 38;
constexpr uint64_t kDeviceAtomicWrite = 1ull << 40;
constexpr uint8_t kPhysLinkUp = 5;
constexpr uint8_t kPhysDisabled = 3;
constexpr uint8_t kPortNeedsGrh = 1;  // IBV_QPF_GRH_REQUIRED

// The flags of every kind of device, and those that follow from its services
// and their requests.
unsigned CapFlagsOf(const urnic_device_kind& kind) {
  constexpr uint32_t kXrc =
      URNIC_SERVICE_XRC_INITIATOR | URNIC_SERVICE_XRC_TARGET;
  constexpr struct {
    uint32_t services;  // any of them
    unsigned flags;
  } kOfServices[] = {
      {URNIC_SERVICE_RC | kXrc, IBV_DEVICE_RC_RNR_NAK_GEN},
      {kXrc, IBV_DEVICE_XRC},
      {URNIC_SERVICE_UD,
       IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_BAD_QKEY_CNTR},
      {URNIC_SERVICE_RC | URNIC_SERVICE_UC | URNIC_SERVICE_UD | kXrc,
       IBV_DEVICE_BAD_PKEY_CNTR},
  };
  constexpr struct {
    RequestSet requests;  // all of them
    unsigned flags;
  } kOfRequests[] = {
      {RequestBit(URNIC_WR_BIND_MW),
       IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B},
      {RequestBit(URNIC_WR_LOCAL_INV) | RequestBit(URNIC_WR_SEND_WITH_INV),
       IBV_DEVICE_MEM_MGT_EXTENSIONS},
  };
  unsigned flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
                   IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_PORT_ACTIVE_EVENT;
  for (const auto& row : kOfServices) {
    if ((kind.services & row.services) != 0) flags |= row.flags;
  }
  const RequestSet requests = control::AllRequestsOf(kind);
  for (const auto& row : kOfRequests) {
    if ((row.requests & ~requests) == 0) flags |= row.flags;
  }
  return flags;
}

uint16_t NumPkeys(const urnic_device_identity& identity) {
  return identity.device_kind->has_pkeys != 0
             ? static_cast<uint16_t>(identity.num_pkeys)
             : uint16_t{0};
}

void FillLimits(const urnic_device_identity& identity, ibv_device_attr& a) {
  using namespace control;
  const urnic_device_kind& kind = *identity.device_kind;
  const urnic_device_limits& limits = kind.limits;
  std::strncpy(a.fw_ver, URNIC_FW_VERSION, sizeof(a.fw_ver) - 1);
  std::memcpy(&a.node_guid, identity.node_guid, sizeof(a.node_guid));
  std::memcpy(&a.sys_image_guid, identity.sys_image_guid,
              sizeof(a.sys_image_guid));
  a.max_mr_size = kMaxMrBytes;
  a.page_size_cap = 0xfffff000;  // any: the device has no pages
  a.vendor_id = kNoVendor;
  a.hw_ver = URNIC_HW_REVISION;
  a.max_qp = static_cast<int>(limits.max_qps);
  a.max_qp_wr = kMaxQpWr;
  a.device_cap_flags = CapFlagsOf(kind);
  a.max_sge = kMaxSge;
  a.max_sge_rd = kMaxSge;
  a.max_cq = static_cast<int>(limits.max_cqs);
  a.max_cqe = kMaxCqe;
  // They share a table: these numbers fit at the same time.
  a.max_mr = a.max_mw = static_cast<int>(limits.max_mrs / 2);
  a.max_pd = static_cast<int>(limits.max_pds);
  a.max_qp_rd_atom = kMaxRdAtomic;
  a.max_qp_init_rd_atom = kMaxRdAtomic;
  a.max_res_rd_atom = static_cast<int>(limits.max_qps * kMaxRdAtomic);
  // IBV_ATOMIC_GLOB would be true, because the CPU's own instructions execute
  // them. But no hardware reports it, and UCX 1.13 takes it for "no atomics".
  a.atomic_cap = (AllRequestsOf(kind) & RequestsOf(RequestFamily::kAtomic)) != 0
                     ? IBV_ATOMIC_HCA
                     : IBV_ATOMIC_NONE;
  if (HasService(kind, QpService::kUd)) {
    a.max_mcast_grp = kMaxMcastGroups;
    a.max_mcast_qp_attach = kMaxMcastQpsPerGroup;
    a.max_total_mcast_qp_attach = kMaxMcastGroups * kMaxMcastQpsPerGroup;
  }
  a.max_ah = static_cast<int>(limits.max_ahs);
  a.max_srq = static_cast<int>(limits.max_srqs);
  a.max_srq_wr = kMaxSrqWr;
  a.max_srq_sge = kMaxSge;
  a.max_pkeys = NumPkeys(identity);
  // TCP measures the delay.
  a.local_ca_ack_delay =
      HasService(kind, QpService::kIwarp) ? 0 : kLocalCaAckDelay;
  a.phys_port_cnt = 1;
}

// The flags of those of its requests that this release of libibverbs has.
uint64_t ExtendedFlags(const urnic_device_kind& kind) {
  const RequestSet requests = control::AllRequestsOf(kind);
  const auto has = [&](uint8_t opcode, size_t release) {
    return Contains(requests, opcode) && QpExBytes() >= release;
  };
  return (has(URNIC_WR_ATOMIC_WRITE, kQpExBytes44) ? kDeviceAtomicWrite : 0) |
         (has(URNIC_WR_FLUSH, kQpExBytes45) ? kDeviceFlushGlobal : 0);
}

// Of enum ibv_odp_transport_cap_bits, in libibverbs 58 and later.
constexpr uint32_t kOdpSupportFlush = 1 << 6;
constexpr uint32_t kOdpSupportAtomicWrite = 1 << 7;

// Memory is never pinned: the CPU faults pages in when it touches them.
void FillOnDemandPaging(const urnic_device_kind& kind, ibv_device_attr_ex& a) {
  constexpr uint32_t kSendRecv =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  constexpr uint32_t kConnected = kSendRecv | IBV_ODP_SUPPORT_WRITE;
  const uint64_t extended = ExtendedFlags(kind);
  const uint32_t reliable =
      kConnected | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
      ((extended & kDeviceFlushGlobal) != 0 ? kOdpSupportFlush : 0) |
      ((extended & kDeviceAtomicWrite) != 0 ? kOdpSupportAtomicWrite : 0);
  a.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  const auto of = [&](QpService service, uint32_t caps) {
    return control::HasService(kind, service) ? caps : 0;
  };
  a.odp_caps.per_transport_caps = {
      .rc_odp_caps =
          of(QpService::kRc, reliable) | of(QpService::kIwarp, reliable),
      .uc_odp_caps = of(QpService::kUc, kConnected),
      .ud_odp_caps = of(QpService::kUd, kSendRecv)};
  a.xrc_odp_caps = of(QpService::kXrcInitiator, reliable);
}

int RefusePort(ibv_context* context, const char* verb, uint32_t port) {
  return Fail(context, Refusal(ErrorCode::kBadAttribute,
                               absl::StrCat(verb, ": port_num ", port,
                                            ", the device has only port ",
                                            control::kPortNumber)));
}

}  // namespace

int QueryRtValues(ibv_context* context, ibv_values_ex* values) {
  constexpr uint32_t kKnown = IBV_VALUES_MASK_RAW_CLOCK;
  if ((values->comp_mask & ~kKnown) != 0) {
    return Fail(context,
                Refusal(ErrorCode::kBadAttribute,
                        absl::StrCat("query_rt_values_ex: comp_mask 0x",
                                     absl::Hex(values->comp_mask), ", only 0x",
                                     absl::Hex(kKnown), " is known")));
  }
  if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
    // All in one field, as in other providers: it is a count of cycles.
    values->raw_clock = {.tv_sec = 0, .tv_nsec = Environment::Now().ns()};
  }
  return 0;
}

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attr, size_t bytes) {
  if (input != nullptr && input->comp_mask != 0) {
    return Fail(context, Refusal(ErrorCode::kBadAttribute,
                                 absl::StrCat("query_device_ex: comp_mask 0x",
                                              absl::Hex(input->comp_mask),
                                              " of the input must be 0")));
  }
  // Older programs have room for less, newer ones for more.
  ibv_device_attr_ex answer = {};
  const control::Device& device = Context::From(context)->device();
  FillLimits(device.identity(), answer.orig_attr);
  answer.device_cap_flags_ex =
      answer.orig_attr.device_cap_flags | ExtendedFlags(device.kind());
  answer.phys_port_cnt_ex = 1;
  answer.completion_timestamp_mask = UINT64_MAX;
  answer.hca_core_clock = 1'000'000;  // kHz: nanoseconds
  answer.cq_mod_caps = {.max_cq_count = UINT16_MAX,
                        .max_cq_period = UINT16_MAX};
  FillOnDemandPaging(device.kind(), answer);
  std::memset(attr, 0, bytes);
  std::memcpy(attr, &answer, std::min(bytes, sizeof(answer)));
  return 0;
}

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
  if (port != control::kPortNumber)
    return RefusePort(context, "query_port", port);
  const control::Device& device = Context::From(context)->device();
  const control::PortAttributes now = device.QueryPort();
  attr->state = now.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr->phys_state = now.active ? kPhysLinkUp : kPhysDisabled;
  attr->max_mtu = IBV_MTU_4096;
  attr->active_mtu = static_cast<ibv_mtu>(now.active_mtu);
  attr->gid_tbl_len = static_cast<int>(device.kind().gid_table_len);
  attr->port_cap_flags = URNIC_PORT_CAP_FLAGS;
  attr->max_msg_sz = control::kMaxMessageBytes;
  attr->pkey_tbl_len = NumPkeys(device.identity());
  attr->bad_pkey_cntr = now.bad_pkeys;
  attr->qkey_viol_cntr = now.bad_qkeys;
  attr->max_vl_num = 1;
  attr->active_width = URNIC_PORT_ACTIVE_WIDTH;
  attr->active_speed = URNIC_PORT_ACTIVE_SPEED;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  if (device.kind().needs_grh != 0) attr->flags = kPortNeedsGrh;
  return 0;
}

int QueryPortSpeed(ibv_context* context, uint32_t port, uint64_t* speed) {
  constexpr uint64_t kLanes = 4;
  constexpr uint64_t kLaneSpeed = 250;
  static_assert(URNIC_PORT_ACTIVE_WIDTH == 2 && URNIC_PORT_ACTIVE_SPEED == 32);
  if (port != control::kPortNumber)
    return RefusePort(context, "query_port_speed", port);
  *speed = kLanes * kLaneSpeed;
  return 0;
}

}  // namespace urnic::provider
