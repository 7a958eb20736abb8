#pragma once

// The objects to which a program holds pointers: libibverbs' struct first, then
// our members. Only this file casts between the two. The objects are in slabs
// between marks (ras/marks), eight bytes after the beginning of a cache line.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "ras/marks/marked_block.h"
#include "ras/marks/marked_slab.h"
#include "ras/presence/presence.h"
#include "verbs/control/address_handle.h"
#include "verbs/control/cq.h"
#include "verbs/control/mr.h"
#include "verbs/control/mw.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp.h"
#include "verbs/control/srq.h"
#include "verbs/control/xrcd.h"
#include "verbs/provider/private_interface.h"

namespace urnic::provider {

class Context;

// The number in an enum that a program has set. It may be outside the enum's
// range, and then must not be read as an enum.
template <typename Enum>
inline uint32_t Number(const Enum& value) {
  static_assert(sizeof(value) == sizeof(uint32_t));
  uint32_t number;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

// The program promises that one thread uses all objects of this domain.
struct ThreadDomain {
  static constexpr Marks kMarks = MarksOf("TD");

  ibv_td td = {};
  Context* context = nullptr;
  std::atomic<int> users = 0;

  static ThreadDomain* From(ibv_td* td) {
    return reinterpret_cast<ThreadDomain*>(td);
  }
};

// The allocators of a parent domain.
class ProgramAllocator final : public control::QueueAllocator {
 public:
  ProgramAllocator(ibv_pd* domain, const ibv_parent_domain_init_attr& attr)
      : domain_(domain),
        alloc_(attr.alloc),
        free_(attr.free),
        context_((attr.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0
                     ? attr.pd_context
                     : nullptr) {}

  // The resource type, which the provider may choose
  // (ibv_alloc_parent_domain(3)), tells the program the kind of queue.
  void* Allocate(size_t bytes, size_t alignment, Use use) override {
    const Absence outside;  // the program's code may call verbs
    return alloc_(domain_, context_, bytes, alignment,
                  static_cast<uint64_t>(use));
  }
  void Free(void* memory, Use use) override {
    const Absence outside;
    free_(domain_, context_, memory, static_cast<uint64_t>(use));
  }

 private:
  ibv_pd* domain_;
  void* (*alloc_)(ibv_pd*, void*, size_t, size_t, uint64_t);
  void (*free_)(ibv_pd*, void*, void*, uint64_t);
  void* context_;
};

// A protection domain, or a parent domain: an alias of one, with a thread
// domain and allocators.
struct ProtectionDomain {
  static constexpr Marks kMarks = MarksOf("PD");

  ibv_pd pd = {};
  Context* context = nullptr;
  std::unique_ptr<control::Pd> own;
  ProtectionDomain* parent = nullptr;
  ThreadDomain* thread_domain = nullptr;
  std::unique_ptr<ProgramAllocator> allocator;
  std::atomic<int> users = 0;  // of this alias, including parent domains

  control::Pd& control() { return parent != nullptr ? *parent->own : *own; }
  static ProtectionDomain* From(ibv_pd* pd) {
    return reinterpret_cast<ProtectionDomain*>(pd);
  }
};

struct MemoryRegion {
  static constexpr Marks kMarks = MarksOf("MR");

  verbs_mr mr = {};
  ProtectionDomain* domain = nullptr;
  std::unique_ptr<control::Mr> control;

  static MemoryRegion* From(verbs_mr* mr) {
    return reinterpret_cast<MemoryRegion*>(mr);
  }
};

struct AddressHandle {
  static constexpr Marks kMarks = MarksOf("AH");

  ibv_ah ah = {};
  Context* context = nullptr;
  ProtectionDomain* domain = nullptr;
  std::unique_ptr<control::AddressHandle> control;
  uint32_t number = 0;  // of *control

  static AddressHandle* From(ibv_ah* ah) {
    return reinterpret_cast<AddressHandle*>(ah);
  }
};

struct XrcDomain {
  static constexpr Marks kMarks = MarksOf("XD");

  ibv_xrcd xrcd = {};
  Context* context = nullptr;
  std::shared_ptr<control::Xrcd> control;
  std::atomic<int> users = 0;

  static XrcDomain* From(ibv_xrcd* xrcd) {
    return reinterpret_cast<XrcDomain*>(xrcd);
  }
};

struct SharedReceiveQueue {
  static constexpr Marks kMarks = MarksOf("SRQ");

  ibv_srq srq = {};
  Context* context = nullptr;
  ProtectionDomain* domain = nullptr;
  XrcDomain* xrc_domain = nullptr;
  std::unique_ptr<control::Srq> control;
  std::atomic<uint32_t> async_events = 0;

  static SharedReceiveQueue* From(ibv_srq* srq) {
    return reinterpret_cast<SharedReceiveQueue*>(srq);
  }
};

struct CompletionQueueHandle {
  static constexpr Marks kMarks = MarksOf("CQ");

  // An extended CQ starts like a plain one, and can be used as one.
  union {
    ibv_cq_ex extended = {};
    ibv_cq cq;
  };
  Context* context = nullptr;
  std::unique_ptr<control::Cq> control;
  // The engine of the device, which each poll needs.
  Engine* engine = nullptr;
  int channel_fd = -1;
  // Events that the program has read or will read; written under the engine's
  // token.
  std::atomic<uint32_t> comp_events = 0;
  std::atomic<uint32_t> async_events = 0;

  // Extended CQs only. The current completion between start_poll and end_poll.
  // The lock is held from start_poll to end_poll. It only excludes other
  // threads of the program; nothing else waits for it.
  ProtectionDomain* domain = nullptr;  // the parent domain of its creation
  control::SpinLock batch_lock_storage;
  control::SpinLock* batch_lock = nullptr;  // null: single-threaded
  // The thread between start_poll and end_poll; 0: there is none.
  std::atomic<uintptr_t> poller = 0;
  ibv_wc current = {};
  uint64_t current_time_ns = 0;

  static CompletionQueueHandle* From(ibv_cq* cq) {
    return reinterpret_cast<CompletionQueueHandle*>(cq);
  }
  static CompletionQueueHandle* From(ibv_cq_ex* cq) {
    return From(ibv_cq_ex_to_cq(cq));
  }
};
static_assert(sizeof(ibv_cq) <= sizeof(ibv_cq_ex) &&
              offsetof(ibv_cq, async_events_completed) ==
                  offsetof(ibv_cq_ex, async_events_completed));

// A memory window.
struct MemoryWindow {
  static constexpr Marks kMarks = MarksOf("MW");

  ibv_mw mw = {};
  Context* context = nullptr;
  ProtectionDomain* domain = nullptr;
  std::unique_ptr<control::Mw> control;

  static MemoryWindow* From(ibv_mw* mw) {
    return reinterpret_cast<MemoryWindow*>(mw);
  }
};

// The list of work requests that a program builds by calls between ibv_wr_start
// and ibv_wr_complete. Protected by the lock of the send queue.
struct WorkList {
  uint32_t begin = 0;            // the ring's producer index at the start
  int error = 0;                 // the first error; later calls do nothing
  const char* why = "";          // the error in words
  urnic_sq_wqe* last = nullptr;  // the request that setters apply to
  // The number of lists that a signal handler of the same thread has begun
  // meanwhile. They are refused, and their requests are not built.
  uint32_t nested = 0;
};

struct QueuePair {
  static constexpr Marks kMarks = MarksOf("QP");

  ibv_qp qp = {};
  uint8_t end_of_qp_ex[kQpExBytesMax - sizeof(ibv_qp)] = {};
  control::Qp::Posting* posting = nullptr;  // of *control
  std::shared_ptr<control::Qp> control;     // shared by openers of XRC targets
  Context* context = nullptr;
  ProtectionDomain* domain = nullptr;  // null: XRC target
  XrcDomain* xrc_domain = nullptr;     // XRC target
  int sq_sig_all = 0;
  std::atomic<uint32_t> async_events = 0;
  // Copies of members of *control, which may be damaged.
  const uint8_t* block = nullptr;
  MarkedBlock parts;
  WorkList list;  // extended ones only
  // The thread that builds the list; 0: none. Any thread reads it.
  std::atomic<uintptr_t> builder = 0;

  QueuePair() = default;
  ~QueuePair() { LetGo(); }
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  // Afterwards there are no more events.
  void LetGo() {
    if (control != nullptr && xrc_domain != nullptr) control->Close(this);
    control.reset();
  }
  ibv_qp_ex* extended() { return reinterpret_cast<ibv_qp_ex*>(&qp); }
  static QueuePair* From(ibv_qp* qp) {
    return reinterpret_cast<QueuePair*>(qp);
  }
  static QueuePair* From(ibv_qp_ex* qp) { return From(&qp->qp_base); }
};
static_assert(offsetof(QueuePair, posting) == kQpExBytesMax);

// Holds the lock of a send queue for a scope; see OptionalLock. False: this
// thread holds the lock already, because it builds a list.
class SendLock {
 public:
  explicit SendLock(QueuePair& qp) : lock_(qp.posting->sq_lock) {
    if (lock_ != nullptr && lock_->TryLock()) return;
    holds_ = qp.builder.load(std::memory_order_relaxed) != ThisThread();
    if (holds_ && lock_ != nullptr) lock_->Lock();
  }
  ~SendLock() {
    if (lock_ != nullptr && holds_) lock_->Unlock();
  }
  SendLock(const SendLock&) = delete;
  SendLock& operator=(const SendLock&) = delete;
  explicit operator bool() const { return holds_; }
  // The lock stays held after the scope, for the list that is being built.
  void Keep() { holds_ = false; }

 private:
  control::SpinLock* const lock_;
  bool holds_ = true;
};

// Deletes an object that the program does not know yet.
template <typename T>
struct SlabDeleter {
  void operator()(T* object) const { MarkedSlab<T>::Of().Delete(object); }
};
template <typename T>
using Handle = std::unique_ptr<T, SlabDeleter<T>>;
template <typename T>
Handle<T> MakeHandle() {
  return Handle<T>(MarkedSlab<T>::Of().New());
}

// The type of our object that begins with a struct of libibverbs.
template <typename Ibv>
struct ObjectOf;
template <>
struct ObjectOf<ibv_td> : std::type_identity<ThreadDomain> {};
template <>
struct ObjectOf<ibv_pd> : std::type_identity<ProtectionDomain> {};
template <>
struct ObjectOf<verbs_mr> : std::type_identity<MemoryRegion> {};
template <>
struct ObjectOf<ibv_mr> : std::type_identity<MemoryRegion> {};
template <>
struct ObjectOf<ibv_mw> : std::type_identity<MemoryWindow> {};
template <>
struct ObjectOf<ibv_ah> : std::type_identity<AddressHandle> {};
template <>
struct ObjectOf<ibv_xrcd> : std::type_identity<XrcDomain> {};
template <>
struct ObjectOf<ibv_srq> : std::type_identity<SharedReceiveQueue> {};
template <>
struct ObjectOf<ibv_cq> : std::type_identity<CompletionQueueHandle> {};
template <>
struct ObjectOf<ibv_qp> : std::type_identity<QueuePair> {};

template <typename T>
concept IbvObject = requires {
  typename ObjectOf<T>::type;
};

// Our object that begins with this struct of libibverbs. It need not be intact.
template <IbvObject Ibv>
typename ObjectOf<Ibv>::type* Ours(const Ibv* object) {
  return reinterpret_cast<typename ObjectOf<Ibv>::type*>(
      const_cast<Ibv*>(object));
}

}  // namespace urnic::provider
