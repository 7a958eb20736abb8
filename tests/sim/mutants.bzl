"""Tests of the oracle: cores that are broken on purpose must be caught."""

_SOURCES = [
    "//tests/sim:mutation_main.cc",
    "//tests/sim:flow.cc",
    "//tests/sim:simulation.cc",
    "//tests/support:endpoint.cc",
    "//tests/support:fake_host.cc",
    "//tests/support:fake_rings.cc",
    "//transport/rc:qp.cc",
    "//transport/rc:responder.cc",
    "//transport/rc:timers.cc",
]

def mutant(name, old, new):
    """One changed place in the core, and the test that it is found.

    Args:
      name: what is broken.
      old: text that occurs once in the core; no single quotes or newlines.
      new: what stands there instead.
    """
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = _SOURCES + [
            "//tests/sim:sources",
            "//tests/support:sources",
            "//transport/rc:sources",
            "//transport/work:sources",
        ],
        outs = [name + ".cc"],
        cmd = "python3 $(location //tests/sim:amalgamate.py) '%s' '%s' %s > $@" %
              (
                  old.replace("$", "$$"),
                  new.replace("$", "$$"),
                  " ".join(["$(location %s)" % s for s in _SOURCES]),
              ),
        tools = ["//tests/sim:amalgamate.py"],
    )
    native.cc_test(
        name = name,
        srcs = [name + ".cc"],
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
