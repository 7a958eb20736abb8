#include "verbs/control/mr.h"

#include "absl/strings/str_cat.h"
#include "transport/mem/mr_table.h"
#include "verbs/control/mapped_range.h"

namespace urnic::control {

namespace {

constexpr uint32_t kRights = mem::kLocalWrite | mem::kRemoteWrite |
                             mem::kRemoteRead | mem::kRemoteAtomic;
constexpr uint32_t kNeedsWriting =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteAtomic;

absl::Status CheckRights(uint32_t access) {
  if ((access & ~kKnownAccessFlags) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("reg_mr: unknown access flags 0x",
                     absl::Hex(access & ~kKnownAccessFlags)));
  }
  if ((access & kAccessOnDemand) != 0) {
    return absl::UnimplementedError(
        "reg_mr: on-demand paging is not announced; plain registration does "
        "not pin memory either");
  }
  //= IBTA 10.6.3.1
  if ((access & (mem::kRemoteWrite | mem::kRemoteAtomic)) != 0 &&
      (access & mem::kLocalWrite) == 0) {
    return absl::InvalidArgumentError(
        "reg_mr: remote write and remote atomic need local write");
  }
  return absl::OkStatus();
}

// What Linux's ib_umem_get() refuses.
absl::Status CheckRange(const MrRequest& request, uint64_t iova) {
  if (request.bytes == 0) {
    return absl::InvalidArgumentError("reg_mr: length 0");
  }
  if (request.bytes > kMaxMrBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reg_mr: length ", request.bytes, " > device limit ", kMaxMrBytes));
  }
  if (request.address + request.bytes < request.address ||
      iova + request.bytes < iova) {
    return absl::InvalidArgumentError(
        absl::StrCat("reg_mr: 0x", absl::Hex(request.address), " (iova 0x",
                     absl::Hex(iova), ") + ", request.bytes,
                     " bytes runs past the end of the address space"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mr>> Mr::Register(Pd& pd,
                                                 const MrRequest& request) {
  const uint32_t access = request.access;
  const uint64_t iova = (access & kAccessZeroBased) != 0 ? 0 : request.iova;
  if (absl::Status s = CheckRights(access); !s.ok()) return s;
  if (absl::Status s = CheckRange(request, iova); !s.ok()) return s;
  if (absl::Status s = CheckMapped(request.address, request.bytes,
                                   (access & kNeedsWriting) != 0);
      !s.ok()) {
    return s;
  }
  Device& device = pd.device();
  device.GuardMemory();
  uint32_t key = 0;
  {
    Engine::ControlScope scope(device.engine());
    key = device.engine().mrs().Register(pd.id(), request.address, iova,
                                         request.bytes, access & kRights);
  }
  if (key == 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        device.identity().name, ": all ", kMaxMrs, " memory regions in use"));
  }
  device.CountMr(1);
  pd.Ref();
  return std::unique_ptr<Mr>(new Mr(pd, key));
}

Mr::~Mr() {
  Device& device = pd_.device();
  {
    Engine::ControlScope scope(device.engine());
    device.engine().mrs().Deregister(MrKey{key_});
  }
  device.CountMr(-1);
  pd_.Unref();
}

}  // namespace urnic::control
