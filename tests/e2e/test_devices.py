"""What programs see of the device, and `urnic run` as a good citizen."""

import glob
import os
import re
import signal
import time

import bed
import suite


def devinfo(context, place, side=0):
    context.need("ibv_devinfo")
    result = place.run(side, ["ibv_devinfo", "-v"])
    context.check_ok(result)
    text = result.out
    pairs = re.findall(r"^\s*([\w\[\] ]+?):\s+(.*?)\s*$", text, re.MULTILINE)
    return text, dict(pairs)


@suite.test("loop/ibv_devices")
def devices(context):
    context.need("ibv_devices")
    with bed.LoopBed(context.tools) as place:
        result = place.run(0, ["ibv_devices"])
        context.check_ok(result)
        context.check(re.search(r"^\s+urnic0\s+[0-9a-f]{16}$", result.out,
                                re.MULTILINE), result)


@suite.test("loop/ibv_devinfo-limits")
def devinfo_limits(context):
    """Limits that are neither zero nor boasts, and nothing that is not
    there."""
    with bed.LoopBed(context.tools) as place:
        text, value = devinfo(context, place)
        for name in ("max_qp", "max_qp_wr", "max_sge", "max_cq", "max_cqe",
                     "max_mr", "max_mw", "max_pd", "max_ah", "max_srq",
                     "max_srq_wr", "max_mcast_grp", "max_qp_rd_atom",
                     "max_qp_init_rd_atom", "max_res_rd_atom"):
            context.check(int(value[name]) > 0, f"{name} in\n{text}")
        # Not built, and must not be announced.
        for name in ("max_fmr", "max_raw_ethy_qp", "max_ee", "max_rdd"):
            context.check(int(value[name]) == 0, f"{name} in\n{text}")
        for name, expected in {"state": "PORT_ACTIVE (4)",
                               "max_mtu": "4096 (5)",
                               "active_mtu": "4096 (5)",
                               "link_layer": "Ethernet",
                               "transport": "InfiniBand (0)",
                               "phys_port_cnt": "1",
                               "port_lid": "0"}.items():
            context.check(value[name] == expected, f"{name} in\n{text}")


@suite.test("loop/gid-table-in-linux-order")
def gid_table(context):
    """Link-local and then the addresses, each as v1 and then as v2."""
    with bed.LoopBed(context.tools) as place:
        text, value = devinfo(context, place)
        for index, start in (
                (0, "fe80:"), (1, "fe80::"),
                (2, "0000:0000:0000:0000:0000:ffff:0a01:0001"),
                (3, "::ffff:10.1.0.1"), (4, "fd01:"), (5, "fd01::1")):
            gid = value.get(f"GID[  {index}]", "")
            context.check(gid.startswith(start) and gid.endswith(
                f"RoCE v{1 + index % 2}"), f"GID {index} is '{gid}' in\n{text}")
        for index in (6, 7):
            context.check(f"GID[  {index}]" not in value,
                          f"GID {index} in\n{text}")


@suite.test("veth/devinfo-tells-the-interface's-mtu")
def devinfo_mtu(context):
    for mtu, code in ((1500, "1024 (3)"), (9000, "4096 (5)")):
        with bed.VethBed(context.tools, mtu) as place:
            text, value = devinfo(context, place)
            context.check(value["active_mtu"] == code, text)


@suite.test("veth9000/second-opener-is-told-who-has-the-port")
def second_opener(context):
    context.need("ibv_rc_pingpong", "ibv_devinfo")
    with bed.VethBed(context.tools) as place:
        port = place.next_port()
        holder = place.spawn(0, ["ibv_rc_pingpong", "-g", "3", "-p",
                                 str(port)])
        bed.await_true(lambda: holder.listens(port), 10, "listening")
        second = place.run(0, ["ibv_devinfo"])
        context.check(second.status != 0, second)
        context.check(str(holder.pid) in second.err and
                      "in use by another RNIC" in second.err, second)
        doctor = place.run(0, [place.tools.urnic, "doctor",
                               *place.run_options(0)], rnic=False)
        context.check("in use by another RNIC" in doctor.out, doctor)
        # Listing opens no device.
        context.check_ok(place.run(0, ["ibv_devices"]))
        # The claim ends with its holder, even if that is killed.
        holder.kill()
        context.check_ok(place.run(0, ["ibv_devinfo"]))


@suite.test("loop/exit-status-passes-through")
def exit_status(context):
    with bed.LoopBed(context.tools) as place:
        for argv, expected in ((["sh", "-c", "exit 7"], 7), (["true"], 0),
                               (["sh", "-c", "kill -TERM $$"],
                                -signal.SIGTERM),
                               (["no-such-program-here"], 127),
                               (["/dev/null"], 126)):
            result = place.run(0, argv)
            context.check(result.status == expected,
                          f"expected {expected}: {result}")


@suite.test("loop/inert-under-other-programs")
def inert(context):
    """The preload is inherited by whatever starts a verbs program: it must
    neither be in the way nor leave anything behind."""
    context.need("bash", "taskset", "timeout", "env", "python3", "ibv_devinfo")
    chain = ["bash", "-c",
             "set -e; x=$(taskset -c 0 timeout 20 env A=b python3 -c "
             "'import os, subprocess; print(6 * 7); "
             "subprocess.run([\"true\"], check=True)'); echo \"got $x\"; "
             "for i in 1 2 3; do (echo $i) | cat; done"]
    with bed.LoopBed(context.tools) as place:
        environment = {"XDG_RUNTIME_DIR": place.directory}
        result = place.run(0, chain, env=environment)
        context.check_ok(result)
        context.check(result.out == "got 42\n1\n2\n3\n" and not result.err,
                      result)
        left = glob.glob(os.path.join(place.directory, "urnic-*"))
        context.check(not left, f"left behind: {left}")
        # A verbs program at the end of such a chain works.
        result = place.run(0, ["bash", "-c", "timeout 20 taskset -c 0 env A=b "
                               "python3 -c 'import subprocess, sys; sys.exit("
                               "subprocess.call([\"ibv_devinfo\"]))'"],
                           env=environment)
        context.check_ok(result)
        context.check("PORT_ACTIVE" in result.out, result)
        left = glob.glob(os.path.join(place.directory, "urnic-*"))
        context.check(not left, f"left behind: {left}")


def sandbox(*mounts):
    """A `wrap` that runs a program among other mounts."""
    script = " && ".join([*mounts, 'exec "$@"'])
    return ["unshare", "-m", "sh", "-c", script, "sh"]


@suite.test("loop/without-sys")
def without_sys(context):
    """As in a chroot: the RNIC needs nothing of the kernel's /sys, and what
    DPDK has to say about it is not the program's output."""
    context.need("ibv_devinfo", "unshare")
    with bed.LoopBed(context.tools) as place:
        result = place.run(0, ["ibv_devinfo"],
                           wrap=sandbox("mount -t tmpfs none /sys"))
        context.check_ok(result)
        context.check("PORT_ACTIVE" in result.out, result)
        context.check("EAL" not in result.out, result)


@suite.test("loop/read-only-places")
def read_only_places(context):
    """The run directory goes where it can be made; the log says where. With
    nowhere to go, one sentence names the places."""
    context.need("ibv_devinfo", "unshare")
    read_only = [f"mount -o bind,ro {path} {path}" for path in ("/tmp", "/run")]
    with bed.LoopBed(context.tools) as place:
        env = {"URNIC_DEBUG": "-", "XDG_RUNTIME_DIR": "", "TMPDIR": ""}
        result = place.run(0, ["ibv_devinfo"], env=env,
                           wrap=sandbox(*read_only))
        context.check_ok(result)
        context.check("PORT_ACTIVE" in result.out, result)
        context.check(re.search("sysfs is shown from /dev/shm/urnic-",
                                result.err), result)
        nowhere = sandbox(*read_only, "mount -o bind,ro /dev/shm /dev/shm")
        result = place.run(0, ["ibv_devinfo"], env=env, wrap=nowhere)
        context.check(result.status == 255, result)
        context.check(re.search(r"urnic: no directory for sysfs in "
                                r".*/tmp.*/dev/shm: Read-only", result.err),
                      result)


@suite.test("loop/no-room-for-files")
def no_room_for_files(context):
    """RLIMIT_FSIZE ends no program: it has no devices, and is told why."""
    context.need("ibv_devinfo")
    with bed.LoopBed(context.tools) as place:
        for limit in ("0", "1"):
            script = (f"(ulimit -f {limit}; ibv_devinfo 2>&1; "
                      "echo status $?) | cat")
            result = place.run(0, ["bash", "-c", script],
                               env={"URNIC_DEBUG": os.path.join(
                                   place.directory, "debug")})
            if limit == "0":
                context.check("status 255" in result.out, result)
                context.check("RLIMIT_FSIZE" in result.out, result)
            else:
                # 1 KB is enough for each file of sysfs.
                context.check("status 0" in result.out, result)
                context.check("PORT_ACTIVE" in result.out, result)


def ping(context, address, option, mtu=9000):
    """The kernel of one host pings the RNIC of the other; with long pings, in
    fragments both ways."""
    context.need("ping", "ibv_rc_pingpong")
    with bed.VethBed(context.tools, mtu) as place:
        place.add_host_address(0, "10.1.0.101/24")
        place.add_host_address(0, "fd01::101/64")
        port = place.next_port()
        server = place.spawn(1, ["ibv_rc_pingpong", "-g", "3", "-p",
                                 str(port)])
        bed.await_true(lambda: server.listens(port), 10, "listening")
        for size in ("56", "1400", "4000", "8000", "60000"):
            result = place.run(0, ["ping", option, "-c", "3", "-i", "0.2",
                                   "-W", "2", "-s", size, address],
                               rnic=False)
            context.check_ok(result)
            context.check("3 received" in result.out, result)
        context.check(server.running(), server.result())


suite.add("veth9000/ping-icmpv4", lambda context: ping(context, "10.1.0.2",
                                                       "-4"))
suite.add("veth9000/ping-icmpv6", lambda context: ping(context, "fd01::2",
                                                       "-6"))
suite.add("veth1500/ping-icmpv4", lambda context: ping(context, "10.1.0.2",
                                                       "-4", 1500))
suite.add("veth1500/ping-icmpv6", lambda context: ping(context, "fd01::2",
                                                       "-6", 1500))

# First fragments of pings from argv[2] sources; the other fragments are never
# sent.
FLOOD = """
import socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
to = socket.inet_aton(sys.argv[1])
for n in range(20 * int(sys.argv[2])):
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 0, n + 1, 0x2000, 64, 1, 0,
                       bytes([10, 1, 1, n % int(sys.argv[2])]), to)
    s.sendto(head + bytes(1000), (sys.argv[1], 0))
"""


@suite.test("veth1500/a-flood-of-fragments-disturbs-nobody")
def flood_of_fragments(context):
    """What is kept of them is bounded and counted; pings in fragments and
    RDMA go on."""
    context.need("ping", "ibv_rc_pingpong", "python3")
    with bed.VethBed(context.tools, 1500) as place:
        place.add_host_address(0, "10.1.0.101/24")
        port = place.next_port()
        argv = ["ibv_rc_pingpong", "-g", "3", "-p", str(port)]
        server = place.spawn(1, argv,
                             env={"URNIC_STATS": place.stats_path(1)})
        bed.await_true(lambda: server.listens(port), 10, "listening")
        ping_it = ["ping", "-c", "1", "-W", "2", "-s", "4000", "10.1.0.2"]
        context.check_ok(place.run(0, ping_it, rnic=False))
        for sources in (1, 200):
            context.check_ok(place.run(
                0, ["python3", "-c", FLOOD, "10.1.0.2", str(sources)],
                rnic=False))
            context.check_ok(place.run(0, ping_it, rnic=False))
        context.check_ok(place.run(0, [*argv, place.sides[1].host_address]))
        context.check_ok(server.wait(20))
        engine = place.read_stats(1)[0]["engine"]
        # Of 4000 packets, 64 are kept; the interface's ring may have lost many.
        context.check(engine["packets_incomplete"] >= 500, engine)


@suite.test("vhost/ctrl-c-ends-a-running-program")
def ctrl_c(context):
    """Status: killed by SIGINT; no hang, and the next pair works."""
    context.need("ib_write_bw")
    with bed.SocketBed(context.tools) as place:
        for _ in range(2):
            server, client = place.spawn_pair(
                ["ib_write_bw", "-x", "3", "-F", "-D", "1",
                 "--run_infinitely"])
            bed.await_true(lambda end=client: "65536" in end.output()[0], 20,
                           "the first result")
            begin = time.monotonic()
            client.signal(signal.SIGINT)
            result = client.wait(5)
            context.note(f"{(time.monotonic() - begin) * 1000:.0f} ms")
            context.check(result.status == -signal.SIGINT, result)
            server.signal(signal.SIGINT)
            server.wait(5)
        server, client = place.run_pair(["ib_write_bw", "-x", "3", "-F", "-n",
                                         "100"])
        context.check_ok(server, client)


@suite.test("loop/libibverbs-loaded-late")
def loaded_late(context):
    """dlopen, and dlvsym of each function with its version, as NCCL does."""
    with bed.LoopBed(context.tools) as place:
        for index in (place.gid_v4, place.gid_v6):
            result = place.run(0, [context.tools.late_loader, str(index)])
            context.check_ok(result)
            context.check(result.out == "ok\n", result)
