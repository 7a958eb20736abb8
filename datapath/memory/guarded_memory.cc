#include "datapath/memory/guarded_memory.h"

#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "transport/wire/crc_fold.h"

namespace urnic {

extern "C" {
extern const char urnic_guarded_begin[];
extern const char urnic_guarded_end[];
extern const char urnic_guarded_fault[];
int urnic_guarded_copy_fold_avx512(void* target, const void* source,
                                   size_t bytes, uint8_t* accumulators,
                                   uint32_t state, const void* multipliers);
int urnic_guarded_copy_fold_sse(void* target, const void* source, size_t bytes,
                                uint8_t* accumulators, uint32_t state,
                                const void* multipliers);
int urnic_guarded_cmpxchg(uint64_t* target, uint64_t compare, uint64_t swap,
                          uint64_t* original);
int urnic_guarded_xadd(uint64_t* target, uint64_t add, uint64_t* original);
// From this many bytes on, `rep movsb` beats the loop (bench/inner_loops).
extern uint64_t urnic_guarded_rep_min;
uint64_t urnic_guarded_rep_min = 512;
}

namespace {

// How this processor hashes while it copies, `bytes` at a time; 0: it cannot.
struct CopyFold {
  decltype(&urnic_guarded_copy_fold_sse) copy;
  size_t bytes;
  const wire::CrcFold wire::FoldingCrc::*multipliers;
};
const CopyFold copy_fold = []() -> CopyFold {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("vpclmulqdq")) {
    return {urnic_guarded_copy_fold_avx512, 256, &wire::FoldingCrc::by256};
  }
  if (__builtin_cpu_supports("pclmul")) {
    return {urnic_guarded_copy_fold_sse, 128, &wire::FoldingCrc::by128};
  }
  return {nullptr, 0, nullptr};
}();

SignalHandler chain_to = nullptr;
const unsigned* (*changes_of_this_thread)() = nullptr;
struct sigaction before_us[NSIG];

void ChainToPrevious(int signo, siginfo_t* info, void* context) {
  const struct sigaction& previous = before_us[signo];
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signo, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signo);
  } else {
    // Takes the default action, at the instruction that faulted.
    sigaction(signo, &previous, nullptr);
  }
}

void OnFault(int signo, siginfo_t* info, void* context) {
  auto* machine = static_cast<ucontext_t*>(context);
  greg_t& rip = machine->uc_mcontext.gregs[REG_RIP];
  const auto at = reinterpret_cast<const char*>(rip);
  // si_code > 0: raised by the kernel for an access, not sent by a process.
  if (at >= urnic_guarded_begin && at < urnic_guarded_end &&
      info->si_code > 0) {
    rip = reinterpret_cast<greg_t>(urnic_guarded_fault);
    return;
  }
  chain_to(signo, info, context);
}

}  // namespace

void InstallMemoryGuard(int (*set_hooks)(SignalHandler), SignalHandler chain,
                        const unsigned* (*mask_changes)()) {
  static std::once_flag once;
  std::call_once(once, [&] {
    changes_of_this_thread = mask_changes;
    if (set_hooks != nullptr && chain != nullptr) {
      chain_to = chain;
      if (set_hooks(OnFault) == 0) return;
    }
    chain_to = ChainToPrevious;
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (const int signo : {SIGSEGV, SIGBUS}) {
      sigaction(signo, &action, &before_us[signo]);
    }
  });
}

CopyMode CopyModeOfThisThread() {
  struct Known {
    const volatile unsigned* changes = nullptr;  // null: not asked yet
    unsigned changes_then = 0;
    CopyMode mode = CopyMode::kGuarded;
  };
  static thread_local Known known;
  if (__builtin_expect(
          known.changes != nullptr && *known.changes == known.changes_then,
          1)) {
    return known.mode;
  }
  static const unsigned never = 0;
  known.changes =
      changes_of_this_thread != nullptr ? changes_of_this_thread() : &never;
  known.changes_then = *known.changes;
  sigset_t mask;
  sigemptyset(&mask);
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  const bool blocked =
      sigismember(&mask, SIGSEGV) == 1 || sigismember(&mask, SIGBUS) == 1;
  known.mode = blocked ? CopyMode::kThroughKernel : CopyMode::kGuarded;
  return known.mode;
}

bool CopyThroughKernel(void* target, const void* source, size_t bytes) {
  // The last eight bytes are copied by a separate call, after the others.
  const size_t tail = bytes < 8 ? bytes : 8;
  const size_t parts[] = {bytes - tail, tail};
  size_t done = 0;
  for (const size_t part : parts) {
    if (part == 0) continue;
    const iovec local{static_cast<char*>(const_cast<void*>(source)) + done,
                      part};
    const iovec remote{static_cast<char*>(target) + done, part};
    // EFAULT is reported for either side, local or remote.
    if (process_vm_writev(getpid(), &local, 1, &remote, 1, 0) !=
        static_cast<ssize_t>(part)) {
      return false;
    }
    done += part;
  }
  return true;
}

bool GuardedCopyHashed(CopyMode mode, void* target, const void* source,
                       size_t bytes, const wire::FoldingCrc& crc,
                       uint32_t* state) {
  auto* to = static_cast<uint8_t*>(target);
  auto* from = static_cast<const uint8_t*>(source);
  if (mode == CopyMode::kGuarded && copy_fold.bytes != 0 &&
      bytes >= copy_fold.bytes) {
    const size_t folded = bytes & ~(copy_fold.bytes - 1);
    alignas(64) uint8_t accumulators[256];
    if (copy_fold.copy(to, from, folded, accumulators, *state,
                       &(crc.*copy_fold.multipliers)) != 0) {
      return false;
    }
    *state = crc.extend(0, accumulators, copy_fold.bytes);
    to += folded;
    from += folded;
    bytes -= folded;
  }
  if (bytes == 0) return true;
  if (!GuardedCopy(mode, to, from, bytes)) return false;
  *state = crc.extend(*state, to, bytes);
  return true;
}

namespace {

// The kernel has no atomics on another address, and a readable page may refuse
// writes, so the guard's signals are unblocked for the one instruction. A
// signal of these numbers that a process has sent and that is blocked would be
// delivered now; processes do not send them.
class GuardLetIn {
 public:
  explicit GuardLetIn(CopyMode mode) : needed_(mode != CopyMode::kGuarded) {
    if (!needed_) return;
    sigset_t faults;
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    sigaddset(&faults, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &faults, &before_);
  }
  ~GuardLetIn() {
    if (needed_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  GuardLetIn(const GuardLetIn&) = delete;
  GuardLetIn& operator=(const GuardLetIn&) = delete;

 private:
  const bool needed_;
  sigset_t before_;
};

}  // namespace

bool GuardedCompareSwap(CopyMode mode, uint64_t target, uint64_t compare,
                        uint64_t swap, uint64_t* original) {
  const GuardLetIn guard(mode);
  return urnic_guarded_cmpxchg(reinterpret_cast<uint64_t*>(target), compare,
                               swap, original) == 0;
}

bool GuardedFetchAdd(CopyMode mode, uint64_t target, uint64_t add,
                     uint64_t* original) {
  const GuardLetIn guard(mode);
  return urnic_guarded_xadd(reinterpret_cast<uint64_t*>(target), add,
                            original) == 0;
}

}  // namespace urnic
