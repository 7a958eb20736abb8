"""Libraries of the distribution as Bazel targets.

A missing library fails the load with the name of the package to install.
Include directories outside the compiler's own search path are linked into the
repository, because Bazel takes no absolute path in `includes`.
"""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "{name}",
    hdrs = glob({globs}),
    includes = {includes},
    defines = {defines},
    copts = {copts},
    linkopts = {linkopts},
)
"""

def _pkg_config(rctx, modules, args, apt):
    tool = rctx.which("pkg-config")
    if not tool:
        fail("\npkg-config is missing. Run: apt-get install pkg-config")
    result = rctx.execute([tool] + args + modules)
    if result.return_code:
        fail("\n%s is not installed. Run: apt-get install %s\n%s" % (" ".join(modules), apt, result.stderr))
    return [w for w in result.stdout.replace("\n", " ").split(" ") if w]

def _dedup(words):
    return {w: None for w in words}.keys()

def _write(rctx, cflags, linkopts, own = {}):
    """`own`: headers of ours, which go before those of the library."""
    includes = ["own"] if own else []
    for name, text in own.items():
        rctx.file("own/" + name, text)
    for flag in _dedup([f for f in cflags if f.startswith("-I")]):
        path = rctx.path(flag[2:])
        if str(path) == "/usr/include" or not path.exists:
            continue
        link = "include%d" % len(includes)
        rctx.symlink(path, link)
        includes.append(link)
    rctx.file("BUILD.bazel", _BUILD.format(
        name = rctx.name,
        globs = repr([i + "/**/*.h*" for i in includes]),
        includes = repr(includes),
        defines = repr([f[2:] for f in _dedup(cflags) if f.startswith("-D")]),
        copts = repr([]),
        linkopts = repr(linkopts),
    ))

def _system_library_impl(rctx):
    modules, apt = rctx.attr.modules, rctx.attr.apt
    libs = _pkg_config(rctx, modules, ["--libs"], apt)
    if rctx.attr.static:
        libs = ["-Wl,--start-group"] + ["-l:lib%s.a" % l[2:] if l.startswith("-l") and not l in ["-lpthread", "-lrt", "-lm", "-ldl"] else l for l in libs] + ["-Wl,--end-group"]
    _write(rctx, _pkg_config(rctx, modules, ["--cflags"], apt), libs)

system_library = repository_rule(
    implementation = _system_library_impl,
    local = True,
    environ = ["PKG_CONFIG_PATH"],
    attrs = {
        "modules": attr.string_list(mandatory = True, doc = "pkg-config names"),
        "apt": attr.string(mandatory = True, doc = "what to install when it is missing"),
        "static": attr.bool(doc = "link the archives, not the shared objects"),
    },
)

# DPDK is linked statically, with the virtual ports only. The reasons and the
# costs are in docs/design/0003-a-guest-in-the-program.md.
# The archives register their drivers in constructors, hence whole-archive.
_DPDK_DRIVERS = ["bus_vdev", "bus_pci", "mempool_ring", "net_memif", "net_af_packet", "net_vhost", "net_virtio", "net_ring", "net_tap", "net_null"]
_DPDK_LIBRARIES = ["vhost", "cryptodev", "dmadev", "hash", "rcu", "ethdev", "meter", "net", "mbuf", "mempool", "ring", "timer", "pci", "bpf", "gso", "security", "telemetry", "kvargs", "eal", "cmdline", "stack"]

# DPDK's memcpy, and with it everything that knows an mbuf, includes this header
# for SSE. The compiler's own also brings 54 000 lines of AVX, which x86-64-v2
# does not have: 0.7 of the 0.8 s that compiling DPDK's mbuf header takes.
_X86INTRIN = """\
#pragma once
#include <nmmintrin.h>
"""

def _dpdk_static_impl(rctx):
    cflags = _pkg_config(rctx, ["libdpdk"], ["--cflags"], "libdpdk-dev libnuma-dev libbsd-dev")
    _write(rctx, cflags, ["-Wl,--whole-archive"] + ["-l:librte_%s.a" % l for l in _DPDK_DRIVERS] +
                         ["-Wl,--no-whole-archive", "-Wl,--start-group"] + ["-l:librte_%s.a" % l for l in _DPDK_LIBRARIES] +
                         ["-Wl,--end-group", "-lnuma", "-lbsd", "-lpthread", "-lm", "-ldl"], {"x86intrin.h": _X86INTRIN})

dpdk_static = repository_rule(implementation = _dpdk_static_impl, local = True, environ = ["PKG_CONFIG_PATH"])
