"""Tests of the oracle: cores that are broken on purpose must be caught."""

_CORE = [
    "//tests/support:endpoint.cc",
    "//tests/support:fake_host.cc",
    "//tests/support:fake_rings.cc",
    "//transport/rc:image.cc",
    "//transport/rc:qp.cc",
    "//transport/rc:responder.cc",
    "//transport/work:image.cc",
    "//transport/work:timers.cc",
]
_RC = _CORE + [
    "//tests/sim:mutation_main.cc",
    "//tests/sim:flow.cc",
    "//tests/sim:simulation.cc",
]
_UNACKED = _CORE + [
    "//tests/sim:unacked_main.cc",
    "//transport/uc:image.cc",
    "//transport/uc:qp.cc",
    "//transport/ud:image.cc",
    "//transport/ud:qp.cc",
    "//transport/work:unacked_image.cc",
    "//transport/work:unacked_qp.cc",
]

_NET = [
    "//tests/sim:net_main.cc",
    "//transport/net:host.cc",
    "//transport/net:membership.cc",
    "//transport/net:neighbor_cache.cc",
    "//transport/net:path_mtu.cc",
    "//transport/net:questions.cc",
    "//transport/net:route_table.cc",
]

# What is simulated: the sources of the core, of its simulator and its program,
# and the arguments that make the program expect a violation.
_SIMULATORS = {
    "rc": (_RC, []),
    "unacked": (_UNACKED, ["--expect-violation"]),
    "net": (_NET, ["--expect-violation"]),
}

def mutant(name, old, new, core = "rc"):
    """One changed place in the core, and the test that it is found.

    Args:
      name: what is broken.
      old: text that occurs once in the core; no single quotes or newlines.
      new: what stands there instead.
      core: "rc", "unacked" (UC or UD) or "net" (the host's).
    """
    sources, args = _SIMULATORS[core]
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = sources + [
            "//tests/sim:sources",
            "//tests/support:sources",
            "//transport/cc:sources",
            "//transport/net:sources",
            "//transport/rc:sources",
            "//transport/uc:sources",
            "//transport/ud:sources",
            "//transport/work:sources",
        ],
        outs = [name + ".cc"],
        cmd = "python3 $(location //tests/sim:amalgamate.py) '%s' '%s' %s > $@" %
              (
                  old.replace("$", "$$"),
                  new.replace("$", "$$"),
                  " ".join(["$(location %s)" % s for s in sources]),
              ),
        tools = ["//tests/sim:amalgamate.py"],
    )
    native.cc_test(
        name = name,
        srcs = [name + ".cc"],
        args = args,
        copts = ["-Wno-error"],
        deps = [
            "//ras/metrics",
            "//tests/support:random",
            "//transport/impair:impairer",
            "//transport/mem",
            "//transport/wire",
            "//transport/wire:pretty",
            "//verbs/abi",
        ],
    )
