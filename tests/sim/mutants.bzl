"""Tests of the oracle: cores that are broken on purpose must be caught."""

# A queue pair of a real engine: its core, and what is compiled with it.
_RC = [
    "//datapath/engine:engine.cc",
    "//datapath/engine:roce_qp.cc",
    "//transport/rc:completer.cc",
    "//transport/rc:gaps.cc",
    "//transport/rc:held_packets.cc",
    "//transport/rc:image.cc",
    "//transport/rc:qp.cc",
    "//transport/rc:responder.cc",
    "//transport/work:image.cc",
]

# The same, with the window that they share.
_CONGESTION = _RC + ["//datapath/engine:path_table.cc"]

_CORE = [
    "//tests/support:endpoint.cc",
    "//tests/support:fake_host.cc",
    "//tests/support:fake_rings.cc",
    "//transport/rc:completer.cc",
    "//transport/rc:gaps.cc",
    "//transport/rc:held_packets.cc",
    "//transport/rc:image.cc",
    "//transport/rc:qp.cc",
    "//transport/rc:responder.cc",
    "//transport/work:image.cc",
    "//transport/work:timers.cc",
]
_UNRELIABLE = _CORE + [
    "//tests/sim:unreliable_main.cc",
    "//transport/uc:image.cc",
    "//transport/uc:qp.cc",
    "//transport/ud:image.cc",
    "//transport/ud:qp.cc",
    "//transport/work:unreliable_image.cc",
    "//transport/work:unreliable_qp.cc",
]

_SCRIPTS = _CORE + [
    "//tests/scripts:mutation_main.cc",
    "//tests/scripts:packet_text.cc",
    "//tests/scripts:runner.cc",
    "//tests/scripts:runner_expect.cc",
    "//tests/scripts:runner_setup.cc",
    "//tests/scripts:words.cc",
]

# A window of RUD.
_RUD_WINDOW = [
    "//transport/rud:commands.cc",
    "//transport/rud:conditions.cc",
    "//transport/rud:context_pool.cc",
    "//transport/rud:notifier.cc",
    "//transport/rud:source.cc",
    "//transport/rud:target.cc",
    "//transport/rud:tce_tables.cc",
]

_RUD = _RUD_WINDOW + [
    "//tests/sim:rud_group_run.cc",
    "//tests/sim:rud_group_source_run.cc",
    "//tests/sim:rud_main.cc",
    "//tests/sim:rud_run.cc",
    "//tests/sim:rud_third_run.cc",
]

_RUD_UPPER = _RUD_WINDOW + [
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
]

_NET = [
    "//tests/sim:net_main.cc",
    "//transport/net:host.cc",
    "//transport/net:membership.cc",
    "//transport/net:neighbor_cache.cc",
    "//transport/net:path_mtu.cc",
    "//transport/net:questions.cc",
    "//transport/net:reassembly.cc",
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
    "//datapath/engine:engine.cc",
    "//datapath/engine:engine_qp.cc",
    "//datapath/engine:frame_custody.cc",
    "//datapath/engine:gsi.cc",
    "//datapath/engine:input_tap.cc",
    "//datapath/engine:network.cc",
    "//datapath/engine:qp_logged.cc",
    "//datapath/engine:qp_table.cc",
    "//datapath/engine:rc_input_tap.cc",
    "//datapath/engine:roce_qp.cc",
    "//datapath/engine:transmit_queue.cc",
]

# The same with what serves iWARP.
_DEVICE = _ENGINE + [
    "//datapath/engine:connection_arrivals.cc",
    "//datapath/engine:connection_ends.cc",
    "//datapath/engine:connection_table.cc",
    "//datapath/engine:iwarp_connection.cc",
    "//datapath/engine:iwarp_input_tap.cc",
    "//datapath/engine:iwarp_logged.cc",
    "//datapath/engine:iwarp_qp.cc",
]

# The parts of a connection, and what gives them their upper layers.
_IWARP = [
    "//transport/iwarp/tcp:connection.cc",
    "//transport/iwarp/tcp:receiver.cc",
    "//transport/iwarp/tcp:scoreboard.cc",
    "//transport/iwarp/mpa:delimiter.cc",
    "//transport/iwarp/rdmap:qp.cc",
    "//transport/iwarp/rdmap:requester.cc",
    "//transport/iwarp/rdmap:responder.cc",
    "//transport/iwarp/qp:endpoint.cc",
    "//tests/sim:iwarp_end.cc",
]

_DEPS = [
    "//ras/history",
    "//ras/metrics",
    "//tests/support:counts",
    "//tests/support:random",
    "//transport/impair",
    "//transport/impair:impairer",
    "//transport/mem",
    "//transport/wire",
    "//transport/wire:pretty",
    "//verbs/abi",
]

_IWARP_HEADERS = [
    "//transport/iwarp/ddp:sources",
    "//transport/iwarp/mpa:sources",
    "//transport/iwarp/options:sources",
    "//transport/iwarp/qp:sources",
    "//transport/iwarp/rdmap:sources",
    "//transport/iwarp/tcp:sources",
]

# What the sources may include of what is inlined.
_HEADERS = _IWARP_HEADERS + [
    "//datapath/engine:sources",
    "//datapath/memory:address_space.h",
    "//tests/scripts:sources",
    "//tests/sim:sources",
    "//tests/sim/rud:sources",
    "//tests/support:sources",
    "//transport/cc:sources",
    "//transport/cm:sources",
    "//transport/net:sources",
    "//transport/rc:sources",
    "//transport/rud:sources",
    "//transport/rud/upper:sources",
    "//transport/uc:sources",
    "//transport/ud:sources",
    "//transport/work:sources",
]

# The simulators: the sources that may be broken (including the simulator's own
# if it includes the core, otherwise it is linked with them), the mode of
# amalgamate.py, the arguments that make the program expect a violation, and its
# dependencies.
_SIMULATORS = {
    "rc": (_RC, "engine_and_core", [], ["//tests/sim:mutation_main"]),
    "congestion": (
        _CONGESTION,
        "engine_and_core",
        ["--expect-miss"],
        ["//tests/sim:congestion_main"],
    ),
    "scripts": (_SCRIPTS, "core", [], _DEPS),
    "unit": (
        [
            "//transport/rc:gaps.cc",
            "//transport/rc:held_packets.cc",
        ],
        "core",
        [],
        [
            "//datapath/port",
            "//tests/sim:unit_mutation_main",
            "//tests/support:endpoint",
        ] + _DEPS,
    ),
    "unreliable": (_UNRELIABLE, "core", ["--expect-violation"], _DEPS),
    "rud": (_RUD, "core", ["--expect-violation"], _DEPS),
    "rud_upper": (_RUD_UPPER, "core", ["--expect-violation"], _DEPS),
    "net": (_NET, "core", ["--expect-violation"], _DEPS),
    "cm": (_CM, "core", ["--expect-violation"], _DEPS),
    "moves": (_ENGINE, "engine", [], ["//tests/sim:mutation_main"]),
    "engine": (
        _ENGINE,
        "engine",
        ["--expect-violation"],
        ["//tests/sim:engine_main"],
    ),
    "device": (
        _DEVICE,
        "engine",
        ["--expect-violation"],
        ["//tests/sim:device_main"],
    ),
    "iwarp": (
        _IWARP,
        "iwarp",
        ["--expect-violation"],
        ["//tests/sim:iwarp_main"],
    ),
}

# One large file, and nobody waits for its program.
_COPTS = {"iwarp": ["-O1"]}

# Each mutant is a long compilation, so the gate runs these: for each simulator
# those that need its main rules. `./dev test --full` runs all. That the place
# of every mutant still exists is checked in the gate too (//tests/sim:mutant_sources).
_IN_GATE = [
    "mutant_executes_duplicates_test",
    "mutant_ignores_gaps_test",
    "mutant_ack_completes_read_test",
    "mutant_resumes_at_start_test",
    "mutant_ignores_rights_test",
    "mutant_flushes_signaled_only_test",
    "mutant_images_forget_timers_test",
    "mutant_uc_joins_parts_test",
    "mutant_cm_images_forget_tries_test",
    "mutant_rud_completes_with_the_last_packet_test",
    "mutant_rud_places_a_complete_read_again_test",
    "mutant_rud_upper_leaves_a_context_without_a_fence_test",
    "mutant_net_believes_lies_test",
    "mutant_net_keeps_fragments_test",
    "mutant_engine_never_frees_kept_frames_test",
    "mutant_engine_forgets_timeouts_test",
    "mutant_moves_forget_timers_test",
    "mutant_device_disconnect_aborts_test",
    "mutant_device_tells_after_forget_test",
    "mutant_iwarp_forgets_retransmission_timer_test",
    "mutant_iwarp_ignores_crc_of_whole_fpdu_test",
    "mutant_iwarp_completes_with_first_ack_test",
    "mutant_iwarp_ignores_rights_test",
    "mutant_iwarp_builds_kept_fpdu_again_test",
    "mutant_never_drains_the_queue_test",
    "mutant_believes_any_mark_test",
    "mutant_competes_again_as_late_test",
]

def mutant(name, old, new, core = "rc", only = None):
    """One changed place in the core, and the test that it is found.

    Args:
      name: what is broken.
      old: text that occurs once in the core; no single quotes or newlines.
      new: what stands there instead.
      core: "rc", "congestion" (the same, judged by how queue pairs share a
        link), "scripts" (judged by a packet script), "unit" (a part, judged by
        its unit test), "unreliable" (UC or UD), "rud", "rud_upper",
        "net" (the host's), "cm", "engine", "moves" (the engine, judged by its
        queue pairs), "iwarp", or "device" (the engine, judged by its iWARP
        connections).
      only: "congestion": the row that misses its bounds. "scripts": the script
        that fails. "unit": the source of the test.
    """
    sources, inlined, args, deps = _SIMULATORS[core]
    data = []
    if core == "scripts":
        data = ["//tests/scripts:rc/%s.pkt" % only]
        args = ["$(location %s)" % data[0]]
    elif core == "unit":
        sources = sources + [only]
    elif only != None:
        args = args + ["'--only=%s'" % only]
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = sources + _HEADERS,
        outs = [name + ".cc"],
        cmd = "python3 $(location //tests/sim:amalgamate.py) %s '%s' '%s' %s > $@" %
              (
                  inlined,
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
        copts = ["-Wno-error"] + _COPTS.get(core, []),
        data = data,
        tags = ["mutant"] + ([] if name in _IN_GATE else ["full"]),
        deps = deps,
    )

def mutant_sources(name):
    """The sources of all mutants above this line of the BUILD file.

    Args:
      name: of the filegroup.
    """
    native.filegroup(
        name = name,
        testonly = True,
        srcs = sorted([rule for rule in native.existing_rules() if rule.endswith("_test_source")]),
    )
