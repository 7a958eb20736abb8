#pragma once

// What of the address space is mapped, as the kernel knows it.

#include "verbs/regcache/range.h"

namespace urnic::regcache {

// The part of `scope` around `want` that is mapped without a hole, readable,
// and writable if `writable`. `want` itself if that is not mapped so, or if it
// cannot be found out; a registration will tell. Multiples of a page. Opens
// /proc/self/maps; no allocation. Any thread.
Range MappedRun(Range scope, Range want, bool writable);

// The same from the text of /proc/self/maps in `fd`, for kernels before 6.11.
Range MappedRunOfText(int fd, Range scope, Range want, bool writable);

}  // namespace urnic::regcache
