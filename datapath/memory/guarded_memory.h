#pragma once

// Memory of the program, touched so that its absence is a result and not a
// crash: registered memory is never trusted to exist.
//
// In the common case a fault is caught by a handler for SIGSEGV and SIGBUS. A
// thread that blocks these signals would be killed instead: it gets the slower
// way through the kernel (process_vm_writev, 0.6 us), and for an atomic the
// signals are let through for that one instruction.

#include <csignal>
#include <cstddef>
#include <cstdint>

namespace urnic {

using SignalHandler = void (*)(int, siginfo_t*, void*);

// Installs the handler; the first call counts, any thread. With the preload,
// `set_hooks` installs it and keeps it in front of what the program installs
// later, and `chain` is the program's own. Both null: sigaction() directly,
// chaining to what was there before. `mask_changes` points to a number of the
// calling thread that changes with its signal mask; null: a thread that changes
// its mask after its first copy is not noticed.
void InstallMemoryGuard(int (*set_hooks)(SignalHandler), SignalHandler chain,
                        const unsigned* (*mask_changes)() = nullptr);

// How the calling thread may copy. Once per entry into the engine. A system
// call when the thread has changed its mask, else some loads.
enum class CopyMode : uint8_t { kGuarded, kThroughKernel };
CopyMode CopyModeOfThisThread();

// True if all went well, false if some byte of either range is not there (an
// unknown part of the target may have been written).
inline bool GuardedCopy(CopyMode mode, void* target, const void* source,
                        size_t bytes);
// The same, and `state`, a running ICRC (transport/wire/icrc.h), goes on over
// the bytes. The source is read once; the copy is hashed on its way through
// the registers: reading it back would wait for the stores, which on a port in
// shared memory wait for another core (measured, 4 KB from core to core of
// distant caches: 775 ns, hashed on the way 245).
// REQUIRES: bytes is a multiple of four; 16 readable bytes at `target`.
bool GuardedCopyHashed(CopyMode mode, void* target, const void* source,
                       size_t bytes, uint32_t* state);
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
