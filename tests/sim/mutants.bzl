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

_CM = [
    "//tests/sim:cm_main.cc",
    "//tests/sim:cm_run.cc",
    "//transport/cm:connection_manager.cc",
    "//transport/cm:connection_table.cc",
    "//transport/cm:half_open.cc",
    "//transport/cm:image.cc",
    "//transport/cm:messages.cc",
    "//transport/cm:receive.cc",
    "//transport/cm:receive_setup.cc",
    "//transport/cm:routing.cc",
    "//transport/cm:state_machine.cc",
    "//transport/cm:state_machine_messages.cc",
    "//transport/work:image.cc",
]

_ENGINE = [
    "//datapath/engine:back_pressure.cc",
    "//datapath/engine:engine.cc",
    "//datapath/engine:engine_loop.cc",
    "//datapath/engine:engine_qp.cc",
    "//datapath/engine:gsi.cc",
    "//datapath/engine:network.cc",
    "//datapath/engine:transmit_queue.cc",
    "//tests/sim:engine_host.cc",
    "//tests/sim:engine_main.cc",
    "//tests/sim:engine_run.cc",
    "//tests/sim:mail.cc",
    "//tests/sim:talk.cc",
    "//tests/sim:talk_connect.cc",
]

_DEPS = [
    "//ras/metrics",
    "//tests/support:random",
    "//transport/impair:impairer",
    "//transport/mem",
    "//transport/wire",
    "//transport/wire:pretty",
    "//verbs/abi",
]

# The cores under the engine are not mutants here.
_ENGINE_DEPS = _DEPS + [
    "//datapath/guest:eal",
    "//datapath/guest:give_way",
    "//datapath/memory:guarded_memory",
    "//datapath/memory:packet_pool",
    "//datapath/port:frame_port",
    "//tests/support:endpoint",
    "//tests/support:host_wire",
    "//transport/cm",
    "//transport/net",
    "//transport/rc",
    "//transport/rc:image",
    "//transport/uc",
    "//transport/uc:image",
    "//transport/ud",
    "//transport/ud:image",
    "@absl_status",
    "@dpdk",
]

# What is simulated: the sources of the core, of its simulator and its program,
# the arguments that make the program expect a violation, and what it needs.
_SIMULATORS = {
    "rc": (_RC, [], _DEPS, []),
    "unacked": (_UNACKED, ["--expect-violation"], _DEPS, []),
    "net": (_NET, ["--expect-violation"], _DEPS, []),
    "cm": (_CM, ["--expect-violation"], _DEPS, []),
    "engine": (
        _ENGINE,
        ["--expect-violation"],
        _ENGINE_DEPS,
        ["URNIC_VIRTUAL_TIME"],
    ),
}

def mutant(name, old, new, core = "rc"):
    """One changed place in the core, and the test that it is found.

    Args:
      name: what is broken.
      old: text that occurs once in the core; no single quotes or newlines.
      new: what stands there instead.
      core: "rc", "unacked" (UC or UD), "net" (the host's), "cm" or "engine".
    """
    sources, args, deps, defines = _SIMULATORS[core]
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = sources + [
            "//datapath/engine:sources",
            "//tests/sim:sources",
            "//tests/support:sources",
            "//transport/cc:sources",
            "//transport/cm:sources",
            "//transport/net:sources",
            "//transport/rc:sources",
            "//transport/uc:sources",
            "//transport/ud:sources",
            "//transport/work:sources",
        ],
        outs = [name + ".cc"],
        cmd = "python3 $(location //tests/sim:amalgamate.py) %s '%s' '%s' %s > $@" %
              (
                  "engine" if core == "engine" else "core",
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
        local_defines = defines,
        tags = ["mutant"],
        deps = deps,
    )
