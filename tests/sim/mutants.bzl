"""Tests of the oracle: cores that are broken on purpose must be caught."""

_CORE = [
    "//tests/support:endpoint.cc",
    "//tests/support:fake_host.cc",
    "//tests/support:fake_rings.cc",
    "//transport/rc:qp.cc",
    "//transport/rc:responder.cc",
    "//transport/rc:timers.cc",
]
_RC = _CORE + [
    "//tests/sim:mutation_main.cc",
    "//tests/sim:flow.cc",
    "//tests/sim:simulation.cc",
]
_UNACKED = _CORE + [
    "//tests/sim:unacked_main.cc",
    "//transport/uc:qp.cc",
    "//transport/ud:qp.cc",
    "//transport/work:unacked_qp.cc",
]

def mutant(name, old, new, unacked = False):
    """One changed place in the core, and the test that it is found.

    Args:
      name: what is broken.
      old: text that occurs once in the core; no single quotes or newlines.
      new: what stands there instead.
      unacked: it is a core of UC or UD, else that of RC.
    """
    sources = _UNACKED if unacked else _RC
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = sources + [
            "//tests/sim:sources",
            "//tests/support:sources",
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
        args = ["--expect-violation"] if unacked else [],
        copts = ["-Wno-error"],
        deps = [
            "//ras/metrics",
            "//tests/support:random",
            "//transport/mem",
            "//transport/wire",
            "//transport/wire:pretty",
            "//verbs/abi",
        ],
    )
