#pragma once

// The calls that change the address space, intercepted: this library has
// functions of the same names, which the dynamic linker finds before those of
// libc. Each tells Space before and after the real call. While no cache is
// open they only pass it on.

namespace urnic::regcache {

// Looks up the real functions, which takes the loader's lock: before the first
// cache is open. Any thread.
void LookUpCalls();

}  // namespace urnic::regcache
