// Memory regions and windows; advice about them.

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "ras/errors/refusal.h"
#include "verbs/control/mapped_range.h"
#include "verbs/provider/context.h"
#include "verbs/provider/entry.h"
#include "verbs/provider/ops.h"

namespace urnic::provider {

static_assert(IBV_ACCESS_LOCAL_WRITE == mem::kLocalWrite &&
              IBV_ACCESS_REMOTE_WRITE == mem::kRemoteWrite &&
              IBV_ACCESS_REMOTE_READ == mem::kRemoteRead &&
              IBV_ACCESS_REMOTE_ATOMIC == mem::kRemoteAtomic &&
              IBV_ACCESS_MW_BIND == uint32_t{control::kAccessMwBind} &&
              IBV_ACCESS_ZERO_BASED == uint32_t{control::kAccessZeroBased} &&
              IBV_ACCESS_ON_DEMAND == uint32_t{control::kAccessOnDemand} &&
              IBV_ACCESS_HUGETLB == uint32_t{control::kAccessHugetlb} &&
              IBV_ACCESS_RELAXED_ORDERING == mem::kRelaxedOrdering &&
              IBV_ACCESS_OPTIONAL_FIRST ==
                  uint32_t{control::kAccessOptionalFirst});
static_assert(IBV_REREG_MR_CHANGE_TRANSLATION ==
                  uint32_t{control::Mr::kTranslation} &&
              IBV_REREG_MR_CHANGE_PD == uint32_t{control::Mr::kDomain} &&
              IBV_REREG_MR_CHANGE_ACCESS == uint32_t{control::Mr::kAccess});

namespace {

ibv_mr* Keep(ProtectionDomain* domain, std::unique_ptr<control::Mr> control,
             int access) {
  auto* region = MarkedSlab<MemoryRegion>::Of().New();
  region->domain = domain;
  region->control = std::move(control);
  region->mr.access = access;
  ibv_mr& mr = region->mr.mr;
  mr.lkey = mr.rkey = mr.handle = region->control->key();
  ++domain->users;
  domain->context->Add(region);
  return &mr;
}

control::MrRequest RequestOf(void* address, size_t bytes, uint64_t iova,
                             int access) {
  return {.address = reinterpret_cast<uint64_t>(address),
          .bytes = bytes,
          .iova = iova,
          .access = static_cast<uint32_t>(access)};
}

}  // namespace

ibv_mr* RegMr(ibv_pd* pd, void* address, size_t bytes, uint64_t iova,
              int access) {
  ProtectionDomain* domain = ProtectionDomain::From(pd);
  auto registered = control::Mr::Register(
      domain->control(), RequestOf(address, bytes, iova, access));
  if (!registered.ok()) return FailNull(pd->context, registered.status());
  return Keep(domain, *std::move(registered), access);
}

int DeregMr(verbs_mr* mr) {
  MemoryRegion* region = MemoryRegion::From(mr);
  if (absl::Status s = region->control->Deregister(); !s.ok()) {
    // Or another thread has done it.
    return HasStartMark(region) ? Fail(mr->mr.context, s)
                                : FailEnding(mr->mr.context, "dereg_mr");
  }
  ProtectionDomain* domain = region->domain;
  if (!domain->context->End(region))
    return FailEnding(mr->mr.context, "dereg_mr");
  domain->context->Delete(region);
  --domain->users;
  return 0;
}

int ReregMr(verbs_mr* mr, int flags, ibv_pd* pd, void* address, size_t bytes,
            int access) {
  MemoryRegion* region = MemoryRegion::From(mr);
  if (flags == 0) {
    return Fail(mr->mr.context, Refusal(ErrorCode::kBadAttribute,
                                        "rereg_mr: nothing to change"));
  }
  const bool moves = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  if (moves && (pd == nullptr || pd->context != mr->mr.context)) {
    return Fail(mr->mr.context,
                Refusal(ErrorCode::kForeignObject,
                        "rereg_mr: pd is not a domain of this context"));
  }
  if (const int error =
          InspectAll(mr->mr.context, "rereg_mr", moves ? pd : nullptr)) {
    return error;
  }
  ProtectionDomain* domain =
      moves ? ProtectionDomain::From(pd) : region->domain;
  if (absl::Status s = region->control->Reregister(
          static_cast<uint32_t>(flags), domain->control(),
          RequestOf(address, bytes, reinterpret_cast<uint64_t>(address),
                    access));
      !s.ok()) {
    return Fail(mr->mr.context, s);
  }
  ++domain->users;
  --region->domain->users;
  region->domain = domain;
  return 0;
}

ibv_mr* AllocNullMr(ibv_pd* pd) {
  ProtectionDomain* domain = ProtectionDomain::From(pd);
  auto registered = control::Mr::RegisterNull(domain->control());
  if (!registered.ok()) return FailNull(pd->context, registered.status());
  ibv_mr* mr = Keep(domain, *std::move(registered), IBV_ACCESS_LOCAL_WRITE);
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = nullptr;
  mr->length = SIZE_MAX;
  reinterpret_cast<verbs_mr*>(mr)->mr_type = kVerbsMrNull;
  return mr;
}

// --- Advice ------------------------------------------------------------------

namespace {

mem::Translation Translate(control::Pd& pd, const ibv_sge& sge, bool write) {
  Engine::ControlScope scope(pd.device().engine());
  return pd.device().network().mrs().Check(
      MrKey{sge.lkey}, pd.id(), sge.addr, sge.length,
      write ? mem::kLocalWrite : mem::kLocalRead);
}

// ibv_advise_mr(3) has errnos of its own.
int RefuseEntry(int error, ErrorCode code, ibv_pd* pd, const ibv_sge& sge,
                const std::string& why) {
  static_cast<void>(
      Fail(pd->context,
           Refusal(code, absl::StrCat("advise_mr: lkey 0x", absl::Hex(sge.lkey),
                                      ", address 0x", absl::Hex(sge.addr),
                                      ", length ", sge.length, ": ", why))));
  return error;
}

// Finds the program's memory of an entry of the list. Returns 0 or an errno.
int FindBytes(ibv_pd* pd, const ibv_sge& sge, bool write, uint64_t* host) {
  const mem::Translation at =
      Translate(ProtectionDomain::From(pd)->control(), sge, write);
  switch (at.fault) {
    case mem::MemFault::kNone:
      *host = at.host;
      return 0;
    case mem::MemFault::kPd:
      return RefuseEntry(EPERM, ErrorCode::kForeignObject, pd, sge,
                         "the region is of another protection domain");
    case mem::MemFault::kRights:
      return RefuseEntry(EPERM, ErrorCode::kNotMapped, pd, sge,
                         "the region does not have the right");
    case mem::MemFault::kRange:
      return RefuseEntry(EFAULT, ErrorCode::kNotMapped, pd, sge,
                         "the range is not inside the region");
    case mem::MemFault::kKey:
      break;
  }
  return RefuseEntry(EFAULT, ErrorCode::kNotMapped, pd, sge,
                     "no region has this lkey");
}

// Returns 0 or an errno.
int Prefetch(ibv_pd* pd, const ibv_sge& sge, uint64_t address, bool write,
             bool wait) {
  const uint64_t bytes = sge.length;
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = address & ~(page - 1);
  if (absl::Status s = control::CheckMapped(address, bytes, write); !s.ok()) {
    return RefuseEntry(EFAULT, ErrorCode::kNotMapped, pd, sge,
                       std::string(WithoutCode(s)));
  }
  void* at = reinterpret_cast<void*>(begin);
  const uint64_t length = address + bytes - begin;
  // MADV_POPULATE_.. needs Linux 5.14. Advice may have no effect.
  const int how = !wait   ? MADV_WILLNEED
                  : write ? MADV_POPULATE_WRITE
                          : MADV_POPULATE_READ;
  if (madvise(at, length, how) == 0 || errno == EINVAL) return 0;
  if (errno != ENOMEM && errno != EFAULT) return 0;
  return RefuseEntry(EFAULT, ErrorCode::kNotMapped, pd, sge,
                     "its pages cannot be made present");
}

}  // namespace

int AdviseMr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags,
             ibv_sge* sges, uint32_t num_sge) {
  const uint32_t what = Number(advice);
  if (what > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
    return Fail(
        pd->context,
        Refusal(ErrorCode::kNotBuilt,
                absl::StrCat("advise_mr: advice ", what, ", only 0 to ",
                             Number(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT),
                             " are built")));
  }
  constexpr uint32_t kFlags = IBV_ADVISE_MR_FLAG_FLUSH;
  if (num_sge == 0 || sges == nullptr || (flags & ~kFlags) != 0) {
    return Fail(pd->context,
                Refusal(ErrorCode::kBadAttribute,
                        absl::StrCat("advise_mr: num_sge ", num_sge,
                                     sges == nullptr ? " without a list" : "",
                                     ", flags 0x", absl::Hex(flags),
                                     ": at least 1 entry, and no flag but 0x",
                                     absl::Hex(kFlags))));
  }
  const bool write = what == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  for (uint32_t i = 0; i < num_sge; ++i) {
    uint64_t host = 0;
    if (const int error = FindBytes(pd, sges[i], write, &host)) return error;
    // NO_FAULT is only about pages that are present: there is nothing to do.
    if (what == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || sges[i].length == 0) {
      continue;
    }
    const bool wait = (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0;
    if (const int error = Prefetch(pd, sges[i], host, write, wait))
      return error;
  }
  return 0;
}

// --- Windows -----------------------------------------------------------------

ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type) {
  const uint32_t number = Number(type);
  if (number != IBV_MW_TYPE_1 && number != IBV_MW_TYPE_2) {
    return FailNull(pd->context,
                    Refusal(ErrorCode::kBadAttribute,
                            absl::StrCat("alloc_mw: unknown type ", number)));
  }
  ProtectionDomain* domain = ProtectionDomain::From(pd);
  auto created = control::Mw::Create(
      domain->control(),
      number == IBV_MW_TYPE_2 ? control::Mw::Type::k2 : control::Mw::Type::k1);
  if (!created.ok()) return FailNull(pd->context, created.status());
  auto* window = MarkedSlab<MemoryWindow>::Of().New();
  window->context = domain->context;
  window->domain = domain;
  window->control = *std::move(created);
  window->mw.context = pd->context;
  window->mw.pd = pd;
  window->mw.rkey = window->mw.handle = window->control->key();
  window->mw.type = type;
  ++domain->users;
  domain->context->Add(window);
  return &window->mw;
}

int DeallocMw(ibv_mw* mw) {
  MemoryWindow* window = MemoryWindow::From(mw);
  ProtectionDomain* domain = window->domain;
  if (!window->context->End(window))
    return FailEnding(mw->context, "dealloc_mw");
  window->context->Delete(window);
  --domain->users;
  return 0;
}

}  // namespace urnic::provider
