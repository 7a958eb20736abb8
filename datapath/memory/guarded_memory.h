#pragma once

// Access to the program's memory that returns an error if memory is not mapped,
// and does not crash: registered memory may disappear at any time.
//
// In the common case a handler for SIGSEGV and SIGBUS catches the fault. A
// thread that blocks these signals would be killed. So it copies through the
// kernel, which is slower (process_vm_writev, 0.6 us), and unblocks the signals
// for the one instruction of an atomic.

#include <csignal>
#include <cstddef>
#include <cstdint>

#include "transport/wire/crc_fold.h"

namespace urnic {

using SignalHandler = void (*)(int, siginfo_t*, void*);

// Installs the handler; later calls have no effect. Any thread. With the
// preload, `set_hooks` installs it and keeps it in front of the handlers that
// the program installs later, and `chain` calls the program's handler. If both
// are null, this calls sigaction(), and the handler chains to the previous one.
// `mask_changes` returns a number of the calling thread that changes with its
// signal mask. If it is null, changes of a thread's mask after its first copy
// are not noticed.
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
// The same, and extends `state`, a state of `crc`, over the bytes. The source
// is read once, and the bytes are hashed in registers. Reading the copy back
// would wait for the stores, which on a port in shared memory wait for another
// core (measured, 4 KB from core to core with distant caches: 775 ns, hashed
// while copying 245). REQUIRES: `target` and `bytes` are valid for
// `crc.extend`.
bool GuardedCopyHashed(CopyMode mode, void* target, const void* source,
                       size_t bytes, const wire::FoldingCrc& crc,
                       uint32_t* state);
// Aligned 8-byte atomics; *original gets the previous value.
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
