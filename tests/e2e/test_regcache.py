"""The registration cache (verbs/regcache) in a verbs program of ours."""

import re

import suite
import beds

ROUNDS = 200
# Without the kernel's reports: as in a container whose filter of system calls
# refuses userfaultfd.
REFUSED = ["strace", "-f", "-o", "/dev/null", "-e", "trace=userfaultfd",
           "-e", "inject=userfaultfd:error=EPERM"]


def counts(result, context):
    found = re.search(r"changes seen by: (\w+)\n"
                      r"hits (\d+), misses (\d+), invalidations (\d+)\n",
                      result.out)
    context.check(found is not None, result)
    return found[1], *(int(n) for n in found.groups()[1:])


def run(context, words):
    with beds.make(context.tools, "loop") as place:
        result = place.run(0, [*words, context.tools.regcache, str(ROUNDS)])
    context.check_ok(result)
    return result


@suite.test("loop/regcache-with-reports-of-the-kernel")
def with_kernel(context):
    result = run(context, [])
    seen_by, hits, misses, invalidations = counts(result, context)
    if seen_by != "kernel":
        raise suite.Skip("this kernel reports no changes to us")
    # Two gets in each round. A source of malloc is unmapped by free(), and
    # each tenth target is mapped again.
    context.check(hits + misses == 2 * ROUNDS, result)
    context.check(misses >= ROUNDS // 10, result)
    context.check(invalidations >= ROUNDS // 10, result)


@suite.test("loop/regcache-with-intercepted-calls-only")
def with_calls(context):
    context.need("strace")
    # What libc unmaps by itself is not seen, so it must not do that: the
    # statement of urnic_regcache.h for this case.
    result = run(context, ["env", "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:"
                           "glibc.malloc.trim_threshold=1000000000", *REFUSED])
    seen_by, hits, misses, invalidations = counts(result, context)
    context.check(seen_by == "calls", result)
    context.check(hits + misses == 2 * ROUNDS and hits > ROUNDS, result)
    context.check(invalidations >= ROUNDS // 10, result)
