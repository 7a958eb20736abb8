// Protection domains, thread domains, parent domains, address handles.

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "verbs/provider/context.h"
#include "verbs/provider/entry.h"
#include "verbs/provider/ops.h"

namespace urnic::provider {

ibv_pd* AllocPd(ibv_context* ibv) {
  Context* context = Context::From(ibv);
  auto created = control::Pd::Create(context->device());
  if (!created.ok()) return FailNull(ibv, created.status());
  auto* domain = MarkedSlab<ProtectionDomain>::Of().New();
  domain->context = context;
  domain->own = *std::move(created);
  domain->pd.handle = domain->own->id();
  context->Add(domain);
  return &domain->pd;
}

int DeallocPd(ibv_pd* pd) {
  ProtectionDomain* domain = ProtectionDomain::From(pd);
  if (domain->users != 0) {
    return Fail(pd->context,
                Refusal(ErrorCode::kInUse,
                        absl::StrCat("pd ", pd->handle, ": objects in it: ",
                                     domain->users.load())));
  }
  if (const int error = domain->context->EndIfUnused(
          domain, [&] { return domain->users != 0; })) {
    return FailEnding(pd->context, "dealloc_pd", error);
  }
  if (domain->parent != nullptr) --domain->parent->users;
  if (domain->thread_domain != nullptr) --domain->thread_domain->users;
  domain->context->Delete(domain);
  return 0;
}

ibv_td* AllocTd(ibv_context* ibv, ibv_td_init_attr* attr) {
  if (attr->comp_mask != 0) {
    return FailNull(ibv, Refusal(ErrorCode::kBadAttribute,
                                 absl::StrCat("alloc_td: unknown comp_mask 0x",
                                              absl::Hex(attr->comp_mask))));
  }
  auto* domain = MarkedSlab<ThreadDomain>::Of().New();
  domain->td.context = ibv;
  domain->context = Context::From(ibv);
  domain->context->Add(domain);
  return &domain->td;
}

int DeallocTd(ibv_td* td) {
  ThreadDomain* domain = ThreadDomain::From(td);
  if (domain->users != 0) {
    return Fail(td->context,
                Refusal(ErrorCode::kInUse,
                        absl::StrCat("thread domain: parent domains with it: ",
                                     domain->users.load())));
  }
  if (const int error = domain->context->EndIfUnused(
          domain, [&] { return domain->users != 0; })) {
    return FailEnding(td->context, "dealloc_td", error);
  }
  domain->context->Delete(domain);
  return 0;
}

ibv_pd* AllocParentDomain(ibv_context* ibv, ibv_parent_domain_init_attr* attr) {
  constexpr uint32_t kAllocators = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                                   IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if (const int error =
          InspectAll(ibv, "alloc_parent_domain", attr->pd, attr->td)) {
    return FailNull(error);
  }
  if (attr->pd == nullptr || (attr->comp_mask & ~kAllocators) != 0) {
    return FailNull(
        ibv, Refusal(ErrorCode::kBadAttribute,
                     absl::StrCat(
                         "alloc_parent_domain: no pd, or unknown comp_mask 0x",
                         absl::Hex(attr->comp_mask))));
  }
  const bool allocates =
      (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (allocates && (attr->alloc == nullptr || attr->free == nullptr)) {
    return FailNull(
        ibv, Refusal(ErrorCode::kBadAttribute,
                     "alloc_parent_domain: set both allocators or neither"));
  }
  ProtectionDomain* parent = ProtectionDomain::From(attr->pd);
  Context* context = Context::From(ibv);
  if (parent->context != context || parent->parent != nullptr) {
    return FailNull(
        ibv,
        Refusal(ErrorCode::kForeignObject,
                "alloc_parent_domain: pd must be a plain one of this context"));
  }
  if (attr->td != nullptr && attr->td->context != ibv) {
    return FailNull(
        ibv,
        Refusal(
            ErrorCode::kForeignObject,
            "alloc_parent_domain: the thread domain is of another context"));
  }
  auto* domain = MarkedSlab<ProtectionDomain>::Of().New();
  domain->context = context;
  domain->parent = parent;
  domain->pd.context = ibv;
  domain->pd.handle = parent->pd.handle;
  ++parent->users;
  if (allocates) {
    domain->allocator = std::make_unique<ProgramAllocator>(&domain->pd, *attr);
  }
  if (attr->td != nullptr) {
    domain->thread_domain = ThreadDomain::From(attr->td);
    ++domain->thread_domain->users;
  }
  context->Add(domain);
  return &domain->pd;
}

ibv_ah* CreateAh(ibv_pd* pd, ibv_ah_attr* attr) {
  ProtectionDomain* domain = ProtectionDomain::From(pd);
  auto created =
      control::AddressHandle::Create(domain->control(), VectorOf(*attr));
  if (!created.ok()) return FailNull(pd->context, created.status());
  auto* handle = MarkedSlab<AddressHandle>::Of().New();
  handle->context = domain->context;
  handle->domain = domain;
  handle->control = *std::move(created);
  handle->number = handle->ah.handle = handle->control->number();
  handle->ah.context = pd->context;
  handle->ah.pd = pd;
  ++domain->users;
  domain->context->Add(handle);
  return &handle->ah;
}

int DestroyAh(ibv_ah* ah) {
  AddressHandle* handle = AddressHandle::From(ah);
  ProtectionDomain* domain = handle->domain;
  if (!handle->context->End(handle))
    return FailEnding(ah->context, "destroy_ah");
  handle->context->Delete(handle);
  --domain->users;
  return 0;
}

}  // namespace urnic::provider
