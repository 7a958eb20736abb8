#include "verbs/provider/context.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "datapath/engine/engine.h"
#include "ras/errors/refusal.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/errors.h"
#include "verbs/control/fork_guard.h"
#include "verbs/control/ring_facts.h"
#include "verbs/provider/entry.h"
#include "verbs/provider/fresh_copy.h"
#include "verbs/provider/loaded_library.h"
#include "verbs/provider/no_cancellation.h"
#include "verbs/provider/ops.h"
#include "verbs/provider/verb.h"

namespace urnic::provider {

namespace {

ibv_event_type TypeOf(QpEvent event) {
  switch (event) {
    case QpEvent::kRequestError:
      return IBV_EVENT_QP_REQ_ERR;
    case QpEvent::kAccessError:
      return IBV_EVENT_QP_ACCESS_ERR;
    case QpEvent::kCommEstablished:
      return IBV_EVENT_COMM_EST;
    case QpEvent::kSqDrained:
      return IBV_EVENT_SQ_DRAINED;
    case QpEvent::kLastWqeReached:
      return IBV_EVENT_QP_LAST_WQE_REACHED;
    default:
      return IBV_EVENT_QP_FATAL;
  }
}

}  // namespace

int Fail(ibv_context* context, const absl::Status& status) {
  if (!status.ok()) Context::From(context)->device().NoteRefusal(status);
  return control::ErrnoOf(status);
}

int FailEnding(ibv_context* context, const char* verb, int error) {
  const bool ended = error == EINVAL;
  return Fail(context,
              Refusal(ended ? ErrorCode::kObjectEnded : ErrorCode::kInUse,
                      absl::StrCat(verb, ": another thread ",
                                   ended ? "destroys the object"
                                         : "makes something with the object")));
}

std::nullptr_t FailNull(int error) {
  errno = error;
  return nullptr;
}

std::nullptr_t FailNull(ibv_context* context, const absl::Status& status) {
  return FailNull(Fail(context, status));
}

const urnic_preload_api* Preload() {
  static const auto* const api = static_cast<const urnic_preload_api*>(
      dlsym(RTLD_DEFAULT, URNIC_PRELOAD_SYMBOL));
  return api;
}

control::ProgramHooks PreloadHooks() {
  control::ProgramHooks hooks;
  if (const urnic_preload_api* preload = Preload()) {
    hooks.set_signal_hooks = preload->set_signal_hooks;
    hooks.chain_signal = preload->chain_signal;
    if (preload->size >= offsetof(urnic_preload_api, set_port_active) +
                             sizeof(preload->set_port_active)) {
      hooks.run_dir = preload->run_dir;
      hooks.set_gids = preload->set_gids;
      hooks.set_port_active = preload->set_port_active;
    }
    if (preload->size >= offsetof(urnic_preload_api, mask_changes) +
                             sizeof(preload->mask_changes)) {
      hooks.mask_changes = preload->mask_changes;
    }
    if (preload->size >=
        offsetof(urnic_preload_api, removed) + sizeof(preload->removed)) {
      hooks.removed = preload->removed;
    }
  }
  return hooks;
}

int Context::OpenEvents() {
  if (const int error = events_.Open()) return error;
  device_->Listen(this);
  return 0;
}

uint32_t Context::NumberOf(const void* object) {
  std::lock_guard lock(mutex_);
  const auto found =
      qps_.find(static_cast<QueuePair*>(const_cast<void*>(object)));
  return found == qps_.end() ? 0 : found->second;
}

void Context::Fence(const void* object, uint32_t number) {
  has_fenced_ = true;
  if (number != 0) device_->FenceQp(number, object);
}

namespace {

template <typename Meant>
void AwaitOutside(control::Device& device, Meant&& meant) {
  constexpr Duration kPatience = Duration::Seconds(1);
  std::vector<uint64_t> offences;
  AwaitOthersOutside(meant, kPatience, [&](pid_t thread, const char* verb) {
    offences.push_back(device.NoteLateThread(thread, verb));
  });
  for (const uint64_t offence : offences)
    device.open_nic().offenders().Remove(offence);
}

}  // namespace

void Context::AwaitOthersOutside(const void* object) {
  const void* const creators = CreatorSpotOf(ContextAt(object));
  AwaitOutside(*device_,
               [=](const void* at) { return at == object || at == creators; });
}

Context::Wait::~Wait() {
  if (offence_ != 0) context_.device().open_nic().offenders().Remove(offence_);
  --context_.waits_;
}

void Context::Wait::Tell() const {
  if (offence_ != 0) return;
  offence_ = context_.device().NoteUnacknowledged(whose_);
}

void Context::WaitOnce(pthread_mutex_t* mutex, pthread_cond_t* cond,
                       const Wait& wait) {
  timespec end = {};
  clock_gettime(CLOCK_REALTIME, &end);
  ++end.tv_sec;
  if (pthread_cond_timedwait(cond, mutex, &end) != 0) wait.Tell();
}

template <typename T>
void Context::EndAllOf(Set<T>& objects, ibv_context* ibv) {
  std::vector<T*> damaged;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [object, number] : objects) {
      const bool intact = HealthOf(object) == Health::kIntact;
      if (HealthOf(object) == Health::kDamaged ||
          (intact && !IsWhole(object))) {
        damaged.push_back(object);
      } else {
        MarkedSlab<T>::End(object);
      }
    }
  }
  for (T* object : damaged)
    RefuseSuspect(SuspectOf(object, ibv), "close_device");
}

void Context::EndAll(ibv_context* ibv) {
  EndAllOf(qps_, ibv);
  EndAllOf(srqs_, ibv);
  EndAllOf(cqs_, ibv);
  EndAllOf(xrc_domains_, ibv);
  EndAllOf(addresses_, ibv);
  EndAllOf(windows_, ibv);
  EndAllOf(regions_, ibv);
  EndAllOf(parent_domains_, ibv);
  EndAllOf(domains_, ibv);
  EndAllOf(thread_domains_, ibv);
  AwaitOutside(*device_, [=](const void* at) {
    return IsContext(at) ? at == SpotOf(ibv) || at == CreatorSpotOf(ibv)
                         : ContextAt(at) == ibv;
  });
}

template <typename T>
void Context::DeleteAll(Set<T>& objects) {
  // Except for overwritten objects.
  std::erase_if(objects, [](const auto& entry) {
    if (HealthOf(entry.first) != Health::kEnded) return false;
    MarkedSlab<T>::Of().Delete(entry.first);
    return true;
  });
}

void Context::DestroyWhatMayBe() {
  device_->Unlisten(this);
  DeleteAll(qps_);
  DeleteAll(windows_);
  DeleteAll(regions_);
}

Context::~Context() {
  device_->Unlisten(this);
  DeleteAll(qps_);
  DeleteAll(srqs_);
  DeleteAll(cqs_);
  DeleteAll(xrc_domains_);
  DeleteAll(addresses_);
  DeleteAll(windows_);
  DeleteAll(regions_);
  DeleteAll(parent_domains_);
  DeleteAll(domains_);
  DeleteAll(thread_domains_);
}

void Context::OnCompletion(control::Cq& cq) {
  auto* handle = static_cast<CompletionQueueHandle*>(cq.user());
  if (HealthOf(handle) == Health::kFenced || handle->channel_fd < 0) return;
  const int result = Preload()->channel_push(
      handle->channel_fd, reinterpret_cast<uint64_t>(&handle->cq));
  if (result > 0) handle->comp_events.fetch_add(1);
  if (result < 0) {
    control::DebugLog(
        absl::StrCat("a completion event was lost: ", strerror(-result)));
  }
}

void Context::OnCqError(control::Cq& cq) {
  auto* handle = static_cast<CompletionQueueHandle*>(cq.user());
  if (HealthOf(handle) == Health::kFenced) return;
  if (events_.Push(reinterpret_cast<uint64_t>(&handle->cq), IBV_EVENT_CQ_ERR)) {
    handle->async_events.fetch_add(1);
  }
}

void Context::OnQpEvent(void* user, QpEvent event) {
  auto* handle = static_cast<QueuePair*>(user);
  if (events_.Push(reinterpret_cast<uint64_t>(&handle->qp), TypeOf(event))) {
    handle->async_events.fetch_add(1);
  }
}

void Context::OnSrqLimit(control::Srq& srq) {
  auto* handle = static_cast<SharedReceiveQueue*>(srq.user());
  if (HealthOf(handle) == Health::kFenced) return;
  if (events_.Push(reinterpret_cast<uint64_t>(&handle->srq),
                   IBV_EVENT_SRQ_LIMIT_REACHED)) {
    handle->async_events.fetch_add(1);
  }
}

void Context::OnSrqError(control::Srq& srq) {
  auto* handle = static_cast<SharedReceiveQueue*>(srq.user());
  if (HealthOf(handle) == Health::kFenced) return;
  if (events_.Push(reinterpret_cast<uint64_t>(&handle->srq),
                   IBV_EVENT_SRQ_ERR)) {
    handle->async_events.fetch_add(1);
  }
}

void Context::OnPortState(bool active) {
  events_.Push(control::kPortNumber,
               active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void Context::OnDeviceFatal() {
  events_.Push(/*element=*/0, IBV_EVENT_DEVICE_FATAL);
}

void Context::OnGidChange() {
  events_.Push(control::kPortNumber, IBV_EVENT_GID_CHANGE);
}

namespace {

// Finds the device that sysfs shows under this name. Returns 0, or an errno
// after a message on stderr: programs only say that they could not open it.
int FindIdentity(const char* name, urnic_device_identity* out) {
  std::vector<urnic_device_identity> devices(URNIC_MAX_DEVICES);
  char error[256] = "";
  const int count =
      urnic_device_identity_from_env(devices.data(), error, sizeof(error));
  if (count < 0) {
    control::ComplainLoudly(absl::StrCat("URNIC_PORTS: ", error));
    return -count;
  }
  for (int i = 0; i < count; ++i) {
    const urnic_device_identity& device = devices[static_cast<size_t>(i)];
    if (std::strcmp(device.name, name) != 0) continue;
    *out = device;
    return 0;
  }
  control::ComplainLoudly(absl::StrCat("URNIC_PORTS names no port for ", name));
  return ENODEV;
}

// Returns 0, or an errno after a message on stderr.
int MakeContext(const char* name, std::unique_ptr<Context>& out) {
  const auto identity = std::make_unique<urnic_device_identity>();
  if (const int error = FindIdentity(name, identity.get())) return error;
  const control::ProgramHooks hooks = PreloadHooks();
  const char* run_dir = hooks.run_dir != nullptr ? hooks.run_dir() : nullptr;
  if (run_dir != nullptr) {
    control::DebugLog(absl::StrCat(name, ": sysfs is shown from ", run_dir));
  }
  auto device = control::Device::Open(*identity, hooks);
  if (!device.ok()) {
    control::ComplainLoudly(std::string(device.status().message()));
    return control::ErrnoOf(device.status());
  }
  out = std::make_unique<Context>(*std::move(device));
  if (const int error = out->OpenEvents()) {
    control::ComplainLoudly(
        absl::StrCat(name, ": no pipe for events: ", strerror(error)));
    return error;
  }
  return 0;
}

// libibverbs opened it through the program's open(), so a library that tracks
// the program's descriptors, such as our preload, must see it closed.
void CloseProgramsFile(int fd) {
  if (const auto close_as_program =
          reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "close"))) {
    close_as_program(fd);
  }
}

void SetOps(verbs_context* context) {
  verbs_context_ops ops = {};
  ops.advise_mr = kVerb<AdviseMr>;
  ops.alloc_mw = kVerb<AllocMw>;
  ops.alloc_null_mr = kVerb<AllocNullMr>;
  ops.alloc_parent_domain = kVerb<AllocParentDomain>;
  ops.alloc_pd = kVerb<AllocPd>;
  ops.alloc_td = kVerb<AllocTd>;
  ops.attach_mcast = kVerb<AttachMcast>;
  ops.bind_mw = kVerb<BindMw>;
  ops.create_ah = kVerb<CreateAh>;
  ops.create_cq = kVerb<CreateCq>;
  ops.create_cq_ex = kVerb<CreateCqEx>;
  ops.create_qp = kVerb<CreateQp>;
  ops.create_qp_ex = kVerb<CreateQpEx>;
  ops.close_xrcd = kVerb<CloseXrcd>;
  ops.create_srq = kVerb<CreateSrq>;
  ops.create_srq_ex = kVerb<CreateSrqEx>;
  ops.dealloc_mw = kVerb<DeallocMw>;
  ops.dealloc_pd = kVerb<DeallocPd>;
  ops.dealloc_td = kVerb<DeallocTd>;
  ops.dereg_mr = kVerb<DeregMr>;
  ops.destroy_ah = kVerb<DestroyAh>;
  ops.destroy_cq = kVerb<DestroyCq>;
  ops.destroy_qp = kVerb<DestroyQp>;
  ops.destroy_srq = kVerb<DestroySrq>;
  ops.detach_mcast = kVerb<DetachMcast>;
  ops.free_context = CloseContext;
  ops.modify_cq = kVerb<ModifyCq>;
  ops.modify_qp = kVerb<ModifyQp>;
  ops.get_srq_num = kVerb<GetSrqNum>;
  ops.modify_srq = kVerb<ModifySrq>;
  ops.open_qp = kVerb<OpenQp>;
  ops.open_xrcd = kVerb<OpenXrcd>;
  ops.poll_cq = PollCq;
  ops.post_recv = PostRecv;
  ops.post_send = PostSend;
  ops.post_srq_recv = PostSrqRecv;
  ops.query_device_ex = kVerb<QueryDeviceEx>;
  ops.query_ece = kVerb<QueryEce>;
  ops.query_port = kVerb<QueryPort>;
  ops.query_port_speed = kVerb<QueryPortSpeed>;
  ops.query_qp = kVerb<QueryQp>;
  ops.query_rt_values = kVerb<QueryRtValues>;
  ops.query_srq = kVerb<QuerySrq>;
  ops.reg_mr = kVerb<RegMr>;
  ops.req_notify_cq = kVerb<ReqNotifyCq>;
  ops.rereg_mr = kVerb<ReregMr>;
  ops.resize_cq = kVerb<ResizeCq>;
  ops.set_ece = kVerb<SetEce>;
  SetOperations(context, ops);
}

}  // namespace

verbs_context* OpenContext(ibv_device* device, int cmd_fd, void* data) {
  const NoCancellation guard;
  if (control::InForkedChild()) {
    if (const Entry* fresh = FreshCopy()) {
      return fresh->open(device, cmd_fd, data);
    }
    CloseProgramsFile(cmd_fd);
    return FailNull(EIO);
  }
  std::unique_ptr<Context> context;
  if (const int error = MakeContext(device->name, context)) {
    CloseProgramsFile(cmd_fd);
    return FailNull(error);
  }
  verbs_context* whole = NewVerbsContext(
      device, cmd_fd, sizeof(ContextMemory) - sizeof(ibv_context));
  if (whole == nullptr) {
    const int error = errno;
    close(context->async_fd());
    return FailNull(error);
  }
  auto* memory = reinterpret_cast<ContextMemory*>(PublicPartOf(whole));
  memory->ibv.async_fd = context->async_fd();
  memory->ibv.num_comp_vectors = control::kCompVectors;
  memory->context = context.release();
  SetOps(whole);
  return whole;
}

void CloseContext(ibv_context* ibv) {
  const NoCancellation guard;
  // In a forked child the objects are the parent's.
  if (!control::InForkedChild()) {
    const NamedPresence inside(SpotOf(ibv), "CloseDevice");
    // In a signal handler inside a verb: the program is about to end.
    if (!inside) return;
    Context* const context = Context::From(ibv);
    context->EndAll(ibv);
    control::NoteUntold(context->device().open_nic());
    if (context->MayDestroyAll()) {
      delete context;
    } else {
      context->DestroyWhatMayBe();
    }
  }
  DeleteVerbsContext(ibv);
}

}  // namespace urnic::provider
