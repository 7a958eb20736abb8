#include "verbs/perf/end.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace urnic::perf {
namespace {

absl::Status Failed(const char* what, int error) {
  return absl::UnavailableError(absl::StrCat(
      what, ": ", strerror(error), "; `urnic show error` may say more"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<End>> End::Open(const EndOptions& options) {
  std::unique_ptr<End> end(new End);
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr || list[0] == nullptr) {
    return absl::NotFoundError(
        "no RDMA device: start it by `urnic perf --port DEV --addr IP/LEN "
        "rud`");
  }
  std::vector<urnic_ep_nic> nics;
  for (ibv_device** device = list; *device != nullptr; ++device) {
    if ((*device)->transport_type != IBV_TRANSPORT_IB) continue;  // iWARP
    ibv_context* const context = ibv_open_device(*device);
    if (context == nullptr) return Failed(ibv_get_device_name(*device), errno);
    end->contexts_.push_back(context);
    nics.push_back({.context = context, .gid_index = -1});
  }
  ibv_free_device_list(list);
  urnic_ep_attr attr = {};
  attr.job = 0x70657266;  // any that both ends have
  attr.paths = options.paths;
  attr.lanes = options.lanes;
  end->endpoint_ =
      urnic_ep_open(nics.data(), static_cast<uint32_t>(nics.size()), &attr);
  if (end->endpoint_ == nullptr) return Failed("urnic_ep_open", errno);
  return end;
}

absl::Status End::ProvideMemory(uint64_t bytes) {
  memory_bytes_ = bytes;
  memory_ = std::make_unique<uint8_t[]>(bytes);
  const int error = urnic_ep_register(
      endpoint_, memory_.get(), bytes,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
      &pvo_);
  return error == 0 ? absl::OkStatus() : Failed("urnic_ep_register", error);
}

End::~End() {
  if (endpoint_ != nullptr) {
    if (pvo_ != 0) urnic_ep_deregister(endpoint_, pvo_);
    urnic_ep_close(endpoint_);
  }
  for (ibv_context* context : contexts_) ibv_close_device(context);
}

absl::StatusOr<std::vector<uint8_t>> End::Introduction() const {
  std::vector<uint8_t> out(sizeof(pvo_) + URNIC_EP_ADDRESS_BYTES);
  std::memcpy(out.data(), &pvo_, sizeof(pvo_));
  size_t bytes = URNIC_EP_ADDRESS_BYTES;
  const int error =
      urnic_ep_address(endpoint_, out.data() + sizeof(pvo_), &bytes);
  if (error != 0) return Failed("urnic_ep_address", error);
  out.resize(sizeof(pvo_) + bytes);
  return out;
}

absl::Status End::Meet(const std::vector<uint8_t>& introduction) {
  if (introduction.size() < sizeof(peers_pvo_))
    return absl::InvalidArgumentError("the other end is not urnic-perf");
  std::memcpy(&peers_pvo_, introduction.data(), sizeof(peers_pvo_));
  const int error =
      urnic_ep_add_peer(endpoint_, introduction.data() + sizeof(peers_pvo_),
                        introduction.size() - sizeof(peers_pvo_), &peer_);
  return error == 0 ? absl::OkStatus() : Failed("urnic_ep_add_peer", error);
}

}  // namespace urnic::perf
