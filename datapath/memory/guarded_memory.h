#pragma once

// Access to the program's memory that reports missing memory as a result
// instead of crashing: registered memory is never trusted to exist.
//
// In the common case a handler for SIGSEGV and SIGBUS catches the fault. A
// thread that blocks these signals would be killed instead: it copies through
// the kernel, which is slower (process_vm_writev, 0.6 us), and for an atomic
// the signals are unblocked for that one instruction.

#include <csignal>
#include <cstddef>
#include <cstdint>

#include "transport/wire/crc_fold.h"

namespace urnic {

using SignalHandler = void (*)(int, siginfo_t*, void*);

// Installs the handler; only the first call counts; any thread. With the
// preload, `set_hooks` installs it and keeps it in front of what the program
// installs later, and `chain` is the program's own. If both are null,
// sigaction() is called directly, and the handler chains to the previous one.
// `mask_changes` points to a number of the calling thread that changes with its
// signal mask; null: a thread that changes its mask after its first copy is not
// noticed.
void InstallMemoryGuard(int (*set_hooks)(SignalHandler), SignalHandler chain,
                        const unsigned* (*mask_changes)() = nullptr);

// How the calling thread may copy. Call it once per entry into the engine.
// Costs a system call if the thread has changed its mask, otherwise some loads.
enum class CopyMode : uint8_t { kGuarded, kThroughKernel };
CopyMode CopyModeOfThisThread();

// False if some byte of either range is not mapped; then an unknown part of the
// target may have been written.
inline bool GuardedCopy(CopyMode mode, void* target, const void* source,
                        size_t bytes);
// The same, and extends `state`, which is of `crc`, over the bytes. The source
// is read once, and the copy is hashed in the registers. Reading it back would
// wait for the stores, which on a port in shared memory wait for another core
// (measured, 4 KB from core to core with distant caches: 775 ns, hashed while
// copying 245). REQUIRES: what `crc.extend` does, of `target` and `bytes`.
bool GuardedCopyHashed(CopyMode mode, void* target, const void* source,
                       size_t bytes, const wire::FoldingCrc& crc,
                       uint32_t* state);
// Aligned 8-byte atomics; *original gets the value before.
bool GuardedCompareSwap(CopyMode mode, uint64_t target, uint64_t compare,
                        uint64_t swap, uint64_t* original);
bool GuardedFetchAdd(CopyMode mode, uint64_t target, uint64_t add,
                     uint64_t* original);

extern "C" {
int urnic_guarded_copy(void* target, const void* source, size_t bytes);
}

bool CopyThroughKernel(void* target, const void* source, size_t bytes);

inline bool GuardedCopy(CopyMode mode, void* target, const void* source,
                        size_t bytes) {
  return __builtin_expect(mode == CopyMode::kGuarded, 1)
             ? urnic_guarded_copy(target, source, bytes) == 0
             : CopyThroughKernel(target, source, bytes);
}

}  // namespace urnic
