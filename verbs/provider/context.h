#pragma once

// An open device, as a program sees it: the objects that the program has
// created, and the target of its events. One per ibv_open_device().

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "verbs/control/device.h"
#include "verbs/control/event_sink.h"
#include "verbs/preload/preload_api.h"
#include "verbs/provider/async_events.h"
#include "verbs/provider/objects.h"

namespace urnic::provider {

class Context final : public control::EventSink {
 public:
  explicit Context(std::shared_ptr<control::Device> device)
      : device_(std::move(device)) {}
  // Destroys the remaining objects, as the kernel does when the device's
  // descriptor is closed.
  ~Context();

  static Context* From(ibv_context* context);

  // 0 or an errno.
  int OpenEvents();
  int async_fd() const { return events_.read_fd(); }

  control::Device& device() { return *device_; }
  AsyncEvents& events() { return events_; }

  // Keeps track of objects, so that they can be destroyed. `number`: a queue
  // pair's. Any thread.
  template <typename T>
  void Add(T* object, uint32_t number = 0) {
    std::lock_guard lock(mutex_);
    SetOf(object).emplace(object, number);
    MarkedSlab<T>::Begin(object);
  }
  // An object is destroyed in two steps. After End() no verb begins to use the
  // object, and no other thread is inside one that does. False: another thread
  // is destroying the object. Then the caller destroys its parts, and Delete()
  // forgets the object and frees its memory.
  template <typename T>
  bool End(T* object) {
    if (!MarkedSlab<T>::End(object)) return false;
    AwaitOthersOutside(static_cast<const void*>(object));
    return true;
  }
  // End() of an object that others may use. 0, or EINVAL if End() returned
  // false. EBUSY: another object that uses it has just been made; then it
  // stays.
  template <typename T, typename InUse>
  int EndIfUnused(T* object, InUse&& in_use) {
    if (!End(object)) return EINVAL;
    if (!in_use()) return 0;
    MarkedSlab<T>::Begin(object);
    return EBUSY;
  }
  template <typename T>
  void Delete(T* object) {
    {
      std::lock_guard lock(mutex_);
      SetOf(object).erase(object);
    }
    MarkedSlab<T>::Of().Delete(object);
  }
  // For ibv_close_device(). Afterwards no verb begins to use an object, and no
  // other thread is inside a verb of this context, `ibv`, or of its objects.
  void EndAll(ibv_context* ibv);
  // Whether all objects may be destroyed: none was overwritten, and no thread
  // waits in a destroying verb.
  bool MayDestroyAll() const { return !has_fenced_ && waits_ == 0; }
  // Otherwise: destroys the objects that no other object uses, above all queue
  // pairs and regions, so that peers cannot access memory any more. All others
  // stay.
  void DestroyWhatMayBe();

  // Destroying verbs wait here, as the kernel's do, until the program has
  // acknowledged the events of an object: until `done()`, which is called under
  // `mutex` whenever `cond` is signalled. `whose`, as in "qp 17", names the
  // object in a report if this takes long.
  template <typename Done>
  void AwaitAcknowledged(pthread_mutex_t* mutex, pthread_cond_t* cond,
                         const std::string& whose, Done&& done) {
    const Wait wait(*this, whose);
    pthread_mutex_lock(mutex);
    while (!done()) WaitOnce(mutex, cond, wait);
    pthread_mutex_unlock(mutex);
  }

  // The number that Add() got for the object, which need not be intact; 0:
  // unknown.
  uint32_t NumberOf(const void* object);
  // The program has overwritten an object. `number`: its queue pair, which
  // fails, or 0.
  void Fence(const void* object, uint32_t number);

  void OnCompletion(control::Cq& cq) override;
  void OnCqError(control::Cq& cq) override;
  void OnQpEvent(void* user, QpEvent event) override;
  void OnSrqLimit(control::Srq& srq) override;
  void OnSrqError(control::Srq& srq) override;
  void OnPortState(bool active) override;
  void OnDeviceFatal() override;
  void OnGidChange() override;

 private:
  template <typename T>
  using Set = std::unordered_map<T*, uint32_t>;

  Set<ThreadDomain>& SetOf(ThreadDomain*) { return thread_domains_; }
  Set<ProtectionDomain>& SetOf(ProtectionDomain* d) {
    return d->parent != nullptr ? parent_domains_ : domains_;
  }
  Set<MemoryRegion>& SetOf(MemoryRegion*) { return regions_; }
  Set<MemoryWindow>& SetOf(MemoryWindow*) { return windows_; }
  Set<AddressHandle>& SetOf(AddressHandle*) { return addresses_; }
  Set<XrcDomain>& SetOf(XrcDomain*) { return xrc_domains_; }
  Set<SharedReceiveQueue>& SetOf(SharedReceiveQueue*) { return srqs_; }
  Set<CompletionQueueHandle>& SetOf(CompletionQueueHandle*) { return cqs_; }
  Set<QueuePair>& SetOf(QueuePair*) { return qps_; }

  // While it exists, this thread waits for the program, and does not count as
  // inside a verb.
  class Wait {
   public:
    Wait(Context& context, const std::string& whose)
        : context_(context), whose_(whose) {
      ++context_.waits_;
    }
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    // Reports that the thread has waited long.
    void Tell() const;

   private:
    Context& context_;
    const std::string& whose_;
    mutable uint64_t offence_ = 0;
    const Absence outside_;
  };
  // Waits once. Until the wait was reported, for a second at most.
  static void WaitOnce(pthread_mutex_t* mutex, pthread_cond_t* cond,
                       const Wait& wait);

  std::shared_ptr<control::Device> device_;
  AsyncEvents events_;
  // Returns when no other thread is inside a verb of `object`, or makes an
  // object in this context. Reports threads that stay long.
  void AwaitOthersOutside(const void* object);
  template <typename T>
  void EndAllOf(Set<T>& objects, ibv_context* ibv);
  template <typename T>
  void DeleteAll(Set<T>& objects);

  std::atomic<bool> has_fenced_ = false;
  std::atomic<int> waits_ = 0;
  std::mutex mutex_;
  // In the order of creation; destroyed in reverse.
  Set<ThreadDomain> thread_domains_;
  Set<ProtectionDomain> domains_;
  Set<ProtectionDomain> parent_domains_;
  Set<MemoryRegion> regions_;
  Set<MemoryWindow> windows_;
  Set<AddressHandle> addresses_;
  Set<XrcDomain> xrc_domains_;
  Set<SharedReceiveQueue> srqs_;
  Set<CompletionQueueHandle> cqs_;
  Set<QueuePair> qps_;
};

// The preload's interface, or nullptr without it.
const urnic_preload_api* Preload();
// The functions of the preload that the device needs.
control::ProgramHooks PreloadHooks();

// The end of libibverbs' verbs_context, followed by our members.
struct ContextMemory {
  ibv_context ibv;
  Context* context;
};

// Opens the device (verbs_device_ops.alloc_context).
verbs_context* OpenContext(ibv_device* device, int cmd_fd, void* private_data);
// Closes it (verbs_context_ops.free_context).
void CloseContext(ibv_context* context);

inline Context* Context::From(ibv_context* context) {
  return reinterpret_cast<ContextMemory*>(context)->context;
}

}  // namespace urnic::provider
