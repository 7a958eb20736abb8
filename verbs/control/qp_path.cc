#include "verbs/control/qp_path.h"

#include "absl/strings/str_cat.h"
#include "datapath/nic/nic.h"
#include "datapath/port/port.h"
#include "ras/errors/refusal.h"
#include "verbs/control/device.h"
#include "verbs/control/limits.h"

namespace urnic::control {

namespace {

constexpr Duration kResolveTimeout = Duration::Seconds(3);
constexpr uint32_t kFlowLabelMask = 0xfffff;
constexpr uint32_t kUdpPortBits = 14;

absl::Status CheckVector(const AddressVector& vector) {
  if (vector.is_global == 0) {
    return Refusal(
        ErrorCode::kNoGid,
        "ah_attr.is_global is 0, but RoCE needs GIDs: give the program a GID "
        "index (ibv_rc_pingpong -g 3)");
  }
  if (vector.port_num != kPortNumber) {
    return Refusal(ErrorCode::kBadAttribute,
                   absl::StrCat("ah_attr.port_num ", int{vector.port_num},
                                ", the device has port 1"));
  }
  if (vector.dgid == wire::Gid{}) {
    return Refusal(ErrorCode::kNoGid, "ah_attr dgid is zero");
  }
  return absl::OkStatus();
}

}  // namespace

uint16_t UdpSourcePort(uint32_t flow_label, uint32_t local_qpn,
                       uint32_t remote_qpn) {
  if (flow_label == 0) {
    uint64_t mix = uint64_t{local_qpn} * remote_qpn;
    mix ^= mix >> 20;
    mix ^= mix >> 40;
    flow_label = static_cast<uint32_t>(mix & kFlowLabelMask);
  }
  const uint32_t low = flow_label & ((1u << kUdpPortBits) - 1);
  return static_cast<uint16_t>(0xc000 | (low ^ flow_label >> kUdpPortBits));
}

absl::StatusOr<net::PathQuery> MakePathRequest(const GidTable& gids,
                                               const AddressVector& vector,
                                               uint32_t local_qpn,
                                               uint32_t remote_qpn) {
  if (absl::Status s = CheckVector(vector); !s.ok()) return s;
  const uint32_t index = vector.sgid_index;
  const auto gid = gids.At(index);
  if (!gid.has_value()) {
    return Refusal(
        ErrorCode::kNoGid,
        absl::StrCat(
            "ah_attr sgid_index ", index, " of ", gids.name(),
            index < gids.size()
                ? " has no GID"
                : absl::StrCat(" is out of range: 0 to ", gids.size() - 1)));
  }
  net::PathQuery request;
  request.local = gid->gid;
  request.roce_v1 = gid->roce_v1;
  request.remote = vector.dgid;
  request.traffic_class = vector.traffic_class;
  request.hop_limit =
      vector.hop_limit == 0 ? wire::kDefaultHopLimit : vector.hop_limit;
  // Excess bits are cut off, as in Linux and in NICs: UCX passes ~0.
  request.flow_label = vector.flow_label & kFlowLabelMask;
  request.udp_src_port =
      UdpSourcePort(request.flow_label, local_qpn, remote_qpn);
  return request;
}

absl::StatusOr<net::Path> ResolvePath(Device& device,
                                      const AddressVector& vector,
                                      uint32_t local_qpn, uint32_t remote_qpn) {
  auto request = MakePathRequest(device.gids(), vector, local_qpn, remote_qpn);
  if (!request.ok()) return request.status();
  auto path = device.nic().ResolvePath(*request, kResolveTimeout);
  if (!absl::IsDeadlineExceeded(path.status())) return path;
  const PortInfo port = device.port().info();
  if (port.state == PortState::kUp) return path;
  // The port was not up, so no host can have received the request.
  return absl::Status(
      path.status().code(),
      absl::StrCat(std::string(path.status().message()),
                   "; the port is not up: ", port.text,
                   port.remedy.empty() ? "" : "; ", port.remedy));
}

}  // namespace urnic::control
