"""Programs that can break themselves in one place (transport/base/mutation.h), and the tests that an oracle notices."""

load("//tests/sim:mutation_list.bzl", "MUTATIONS")
load("//third_party/precompiled:cc.bzl", "cc_library")

# What is compiled again, with the mutations: for each part, one file that includes its sources, and the libraries
# that it belongs to. The rest of a program is linked behind the parts, as it is.
_PARTS = {
    "cores": (
        [
            "//transport/rc:completer.cc",
            "//transport/rc:gaps.cc",
            "//transport/rc:held_packets.cc",
            "//transport/rc:image.cc",
            "//transport/rc:qp.cc",
            "//transport/rc:responder.cc",
            "//transport/uc:image.cc",
            "//transport/uc:qp.cc",
            "//transport/ud:image.cc",
            "//transport/ud:qp.cc",
            "//transport/work:image.cc",
            "//transport/work:timers.cc",
            "//transport/work:unreliable_image.cc",
            "//transport/work:unreliable_qp.cc",
        ],
        [
            "//transport/rc:image",
            "//transport/uc:image",
            "//transport/ud:image",
            "//transport/work:image",
        ],
    ),
    "engine": (
        [
            "//datapath/engine:connection_arrivals.cc",
            "//datapath/engine:connection_ends.cc",
            "//datapath/engine:connection_table.cc",
            "//datapath/engine:engine.cc",
            "//datapath/engine:engine_qp.cc",
            "//datapath/engine:frame_custody.cc",
            "//datapath/engine:gsi.cc",
            "//datapath/engine:input_tap.cc",
            "//datapath/engine:iwarp_connection.cc",
            "//datapath/engine:iwarp_input_tap.cc",
            "//datapath/engine:iwarp_logged.cc",
            "//datapath/engine:iwarp_qp.cc",
            "//datapath/engine:network.cc",
            "//datapath/engine:path_table.cc",
            "//datapath/engine:qp_logged.cc",
            "//datapath/engine:qp_table.cc",
            "//datapath/engine:rc_input_tap.cc",
            "//datapath/engine:roce_qp.cc",
            "//datapath/engine:transmit_queue.cc",
        ],
        ["//datapath/engine:engine_in_virtual_time"],
    ),
    # A core without an engine.
    "endpoint": (
        [
            "//tests/support:endpoint.cc",
            "//tests/support:fake_host.cc",
        ],
        ["//tests/support:endpoint"],
    ),
    "unit_tests": (
        [
            "//datapath/engine:burst_limit_test.cc",
            "//transport/cc:delay_window_test.cc",
            "//transport/cc:shared_path_test.cc",
            "//transport/rc:gaps_test.cc",
            "//transport/rc:held_packets_test.cc",
        ],
        [
            "//datapath/engine:engine_in_virtual_time",
            "//tests/support:endpoint",
            "//transport/base:random",
            "@gtest",
        ],
    ),
    "unreliable": (
        ["//tests/sim:unreliable_main.cc"],
        [
            "//tests/sim:seeds",
            "//tests/sim:unreliable",
        ],
    ),
    "rud": (
        [
            "//tests/sim:rud_group_run.cc",
            "//tests/sim:rud_group_source_run.cc",
            "//tests/sim:rud_main.cc",
            "//tests/sim:rud_run.cc",
            "//tests/sim:rud_third_run.cc",
        ],
        [
            "//tests/sim:rud",
            "//tests/sim:seeds",
        ],
    ),
    "rud_window": (
        [
            "//transport/rud:commands.cc",
            "//transport/rud:conditions.cc",
            "//transport/rud:context_pool.cc",
            "//transport/rud:notifier.cc",
            "//transport/rud:source.cc",
            "//transport/rud:target.cc",
            "//transport/rud:tce_tables.cc",
        ],
        ["//transport/rud"],
    ),
    "rud_upper": (
        [
            "//tests/sim/rud:rud_net.cc",
            "//tests/sim/rud:upper_main.cc",
            "//tests/sim/rud:upper_run.cc",
            "//transport/rud/upper:address.cc",
            "//transport/rud/upper:endpoint.cc",
            "//transport/rud/upper:endpoint_receive.cc",
            "//transport/rud/upper:handshake.cc",
            "//transport/rud/upper:reassembly.cc",
            "//transport/rud/upper:recovery.cc",
            "//transport/rud/upper:sender.cc",
        ],
        [
            "//tests/sim:seeds",
            "//tests/sim/rud:upper",
        ],
    ),
    "net": (
        [
            "//tests/sim:net_main.cc",
            "//transport/net:host.cc",
            "//transport/net:membership.cc",
            "//transport/net:neighbor_cache.cc",
            "//transport/net:path_mtu.cc",
            "//transport/net:questions.cc",
            "//transport/net:reassembly.cc",
            "//transport/net:route_table.cc",
        ],
        [
            "//tests/sim:net",
            "//tests/sim:seeds",
        ],
    ),
    "cm": (
        [
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
        ],
        [
            "//tests/sim:cm_run",
            "//tests/sim:seeds",
        ],
    ),
    "iwarp": (
        [
            "//tests/sim:iwarp_end.cc",
            "//transport/iwarp/mpa:delimiter.cc",
            "//transport/iwarp/qp:endpoint.cc",
            "//transport/iwarp/rdmap:qp.cc",
            "//transport/iwarp/rdmap:requester.cc",
            "//transport/iwarp/rdmap:responder.cc",
            "//transport/iwarp/tcp:connection.cc",
            "//transport/iwarp/tcp:receiver.cc",
            "//transport/iwarp/tcp:scoreboard.cc",
        ],
        ["//tests/sim:iwarp_run"],
    ),
}

# For each simulator: its parts; the library of its main function, if no part has it; how it is told that it has to
# notice a fault; and what it does, in a second or two, if nothing is broken.
_SIMULATORS = {
    "rc": (
        ["cores", "engine"],
        ["//tests/sim:mutation_main"],
        ["--expect-violation"],
        ["--seeds=1..50"],
    ),
    "congestion": (
        ["cores", "engine"],
        ["//tests/sim:congestion_main"],
        ["--expect-miss"],
        ["'--only=incast 4:1, QPs each: 1'"],
    ),
    "scripts": (
        ["cores", "endpoint"],
        ["//tests/scripts:mutation_main"],
        ["--expect-violation"],
        [],
    ),
    "unit": (
        ["cores", "unit_tests"],
        ["//tests/sim:unit_mutation_main"],
        ["--expect-violation"],
        [],
    ),
    "unreliable": (["cores", "unreliable"], [], ["--expect-violation"], ["--seeds=1..200"]),
    "rud": (["rud", "rud_window"], [], ["--expect-violation"], ["--seeds=1..200"]),
    "rud_upper": (["rud_upper", "rud_window"], [], ["--expect-violation"], ["--seeds=1..200"]),
    "net": (["net"], [], ["--expect-violation"], ["--seeds=1..100"]),
    "cm": (["cm"], [], ["--expect-violation"], ["--seeds=1..200"]),
    "engine": (["engine"], ["//tests/sim:engine_main"], ["--expect-violation"], ["--seeds=1..50"]),
    "device": (["engine"], ["//tests/sim:device_main"], ["--expect-violation"], ["--seeds=1..50"]),
    "iwarp": (["iwarp"], ["//tests/sim:iwarp_main"], ["--expect-violation"], ["--seeds=1..500"]),
}

# What is noticed only after ten seconds to a minute: `./dev test --full` runs these.
_LONG = [
    "device_doorbell_misses_connection",
    "device_err_leaves_connection",
    "probes_with_nothing_under_way",
    "rud_upper_forgets_parked_units",
]

def mutations():
    """Each simulator passes as long as nothing is broken, and notices each of its mutations."""
    for part in _PARTS:
        sources, deps = _PARTS[part]
        _part("mutable_" + part, sources, deps)
    for simulator in _SIMULATORS:
        parts, main, expect, nothing = _SIMULATORS[simulator]
        program = simulator + "_with_mutations"
        native.cc_binary(
            name = program,
            linkopts = ["-Wl,--wrap=main"],
            deps = [":mutable_" + part for part in parts] + [":choose_mutation"] + main,
        )
        names = MUTATIONS[simulator]
        scripts = {script: None for name in names for script in _data(simulator, name)}.keys()
        _test(
            "no_mutation_in_%s_test" % simulator,
            program,
            nothing + ["$(location %s)" % script for script in scripts],
            data = scripts,
        )
        for name in names:
            _test(
                "mutation_%s_in_%s_test" % (name, simulator),
                program,
                ["--mutation=" + name] + expect + _only(simulator, name),
                data = _data(simulator, name),
                long = name in _LONG,
            )

def _part(name, sources, deps):
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = sources,
        outs = [name + ".cc"],
        cmd = "for f in $(SRCS); do echo \"#include \\\"$$f\\\"\"; done > $@",
    )
    cc_library(
        name = name,
        srcs = [name + ".cc"],
        copts = ["-DURNIC_MUTATIONS"],
        textual_hdrs = sources,
        deps = deps,
        # The functions of headers, too, are then those with the mutations.
        alwayslink = True,
    )

def _only(simulator, name):
    if simulator == "congestion":
        return ["'--only=%s'" % MUTATIONS[simulator][name]]
    if simulator == "unit":
        return ["--gtest_filter=%s.*" % MUTATIONS[simulator][name]]
    return ["$(location %s)" % script for script in _data(simulator, name)]

def _data(simulator, name):
    if simulator != "scripts":
        return []
    return ["//tests/scripts:rc/%s.pkt" % MUTATIONS[simulator][name]]

def _test(name, program, args, data = [], long = False):
    native.sh_test(
        name = name,
        srcs = [program],
        args = args,
        data = data,
        tags = ["mutant"] + (["full"] if long else []),
    )
