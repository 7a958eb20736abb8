#include "verbs/control/mr.h"

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"
#include "transport/mem/mr_table.h"
#include "verbs/control/errors.h"
#include "verbs/control/mapped_range.h"

namespace urnic::control {

namespace {

constexpr uint32_t kRights = mem::kLocalWrite | mem::kRemoteWrite |
                             mem::kRemoteRead | mem::kRemoteAtomic |
                             mem::kBindWindow | mem::kFlushGlobal |
                             mem::kRelaxedOrdering;
static_assert(mem::kBindWindow == kAccessMwBind &&
              mem::kRelaxedOrdering >= kAccessOptionalFirst &&
              mem::kZeroBased == kAccessZeroBased &&
              mem::kFlushGlobal == kAccessFlushGlobal);
constexpr uint32_t kNeedsWriting =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteAtomic;

absl::Status CheckRights(uint32_t access) {
  if ((access & ~kKnownAccessFlags) != 0) {
    return Refusal(ErrorCode::kBadAttribute,
                   absl::StrCat("reg_mr: unknown access flags 0x",
                                absl::Hex(access & ~kKnownAccessFlags)));
  }
  if ((access & kAccessFlushPersistent) != 0) {
    return Refusal(ErrorCode::kNotBuilt,
                   "reg_mr: flushing to persistence is not supported");
  }
  //= IBTA 10.6.3.1: a region with remote write or remote atomic access needs
  //= local write access
  if ((access & (mem::kRemoteWrite | mem::kRemoteAtomic)) != 0 &&
      (access & mem::kLocalWrite) == 0) {
    return Refusal(ErrorCode::kBadAttribute,
                   "reg_mr: remote write and remote atomic need local write");
  }
  return absl::OkStatus();
}

bool IsImplicit(const MrRequest& request) {
  return (request.access & kAccessOnDemand) != 0 && request.address == 0 &&
         request.bytes == kWholeAddressSpace;
}

// Refuses what Linux's ib_umem_get() refuses.
absl::Status CheckMemory(const MrRequest& request, uint64_t iova) {
  if (IsImplicit(request)) return absl::OkStatus();
  if (absl::Status s =
          CheckRange("reg_mr: length", request.bytes, 1, kMaxMrBytes);
      !s.ok()) {
    return s;
  }
  if (request.address + request.bytes < request.address ||
      iova + request.bytes < iova) {
    return Refusal(
        ErrorCode::kBadAttribute,
        absl::StrCat("reg_mr: 0x", absl::Hex(request.address), " (iova 0x",
                     absl::Hex(iova), ") + ", request.bytes,
                     " bytes runs past the end of the address space"));
  }
  return absl::OkStatus();
}

uint64_t IovaOf(const MrRequest& request) {
  return (request.access & kAccessZeroBased) != 0 || IsImplicit(request)
             ? 0
             : request.iova;
}

absl::Status Check(const MrRequest& request) {
  if (absl::Status s = CheckRights(request.access); !s.ok()) return s;
  if (absl::Status s = CheckMemory(request, IovaOf(request)); !s.ok()) return s;
  // On-demand paging: the memory may be mapped later.
  if ((request.access & kAccessOnDemand) != 0) return absl::OkStatus();
  return CheckMapped(request.address, request.bytes,
                     (request.access & kNeedsWriting) != 0);
}

absl::Status NoRoom(Device& device) {
  return Refusal(
      ErrorCode::kNoPlace,
      absl::StrCat(device.identity().name, ": all ",
                   device.kind().limits.max_mrs,
                   " memory regions and windows in use, or all keys that are "
                   "leased to this network"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mr>> Mr::Register(Pd& pd,
                                                 const MrRequest& request) {
  if (absl::Status s = Check(request); !s.ok()) return s;
  Device& device = pd.device();
  device.GuardMemory();
  uint32_t key = 0;
  {
    Engine::ControlScope scope(device.engine());
    key = device.network().mrs().Register(pd.id(), request.address,
                                          IovaOf(request), request.bytes,
                                          request.access & kRights);
  }
  if (key == 0) return NoRoom(device);
  URNIC_CHECK(device.mrs().Reserve(device.name()).ok());  // it had a key
  pd.Ref();
  return std::unique_ptr<Mr>(new (pd.device().memory()) Mr(pd, key, request));
}

absl::StatusOr<std::unique_ptr<Mr>> Mr::RegisterNull(Pd& pd) {
  Device& device = pd.device();
  uint32_t key = 0;
  {
    Engine::ControlScope scope(device.engine());
    key = device.network().mrs().RegisterNull(pd.id());
  }
  if (key == 0) return NoRoom(device);
  URNIC_CHECK(device.mrs().Reserve(device.name()).ok());  // it had a key
  pd.Ref();
  return std::unique_ptr<Mr>(new (pd.device().memory())
                                 Mr(pd, key, MrRequest{}));
}

absl::Status Mr::Reregister(uint32_t what, Pd& pd, const MrRequest& request) {
  if (absl::Status s = pd.device().CheckWorks(); !s.ok()) return s;
  MrRequest next = request_;
  if (next.bytes == 0) {
    return Refusal(ErrorCode::kBadAttribute, "rereg_mr: this is a null region");
  }
  if ((what & kTranslation) != 0) {
    next.address = request.address;
    next.bytes = request.bytes;
    next.iova = request.iova;
  }
  if ((what & kAccess) != 0) next.access = request.access;
  Pd& domain = (what & kDomain) != 0 ? pd : *pd_;
  if (&domain.device() != &pd_->device()) {
    return Refusal(ErrorCode::kForeignObject,
                   "rereg_mr: the domain belongs to another device");
  }
  if (absl::Status s = Check(next); !s.ok()) return s;
  mem::MrTable& mrs = domain.device().network().mrs();
  {
    Engine::ControlScope scope(domain.device().engine());
    if (mrs.Find(MrKey{key_})->windows != 0) {
      return Refusal(ErrorCode::kInUse,
                     "rereg_mr: memory windows are bound to it");
    }
    mrs.Change(MrKey{key_}, domain.id(), next.address, IovaOf(next), next.bytes,
               next.access & kRights);
    domain.Ref();
    pd_->Unref();
    pd_ = &domain;
    request_ = next;
  }
  return absl::OkStatus();
}

absl::Status Mr::Deregister() {
  Device& device = pd_->device();
  Engine::ControlScope scope(device.engine());
  if (!device.network().mrs().Deregister(MrKey{key_})) {
    return Refusal(ErrorCode::kInUse,
                   absl::StrCat("dereg_mr 0x", absl::Hex(key_),
                                ": windows are bound to it"));
  }
  registered_ = false;
  return absl::OkStatus();
}

Mr::~Mr() {
  pd_->device().mrs().Leave(serial_);
  if (registered_) URNIC_CHECK(Deregister().ok());
  pd_->Unref();
}

}  // namespace urnic::control
