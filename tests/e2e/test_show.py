"""What `urnic show` tells of programs of the distribution while they run."""

import datetime
import functools
import json
import os
import re
import signal

import bed
import beds
import suite


def shown(context, place, side, *words):
    result = place.run(side, [context.tools.urnic, "show", *words, "-j", "-d"],
                       rnic=False, env={"XDG_RUNTIME_DIR": place.directory})
    context.check_ok(result)
    return json.loads(result.out)


def when(entry):
    """Seconds since 1970."""
    return datetime.datetime.fromisoformat(
        entry["at"].replace("Z", "+00:00")).timestamp()


def one(objects, context):
    context.check(len(objects) == 1, objects)
    return objects[0]


def show_in_mid_transfer(context, bed_name):
    """Both ends of a transfer name each other, and what they use."""
    argv = ["ib_write_bw", "-x", "3", "-F", "-D", "20", "-q", "2"]
    context.need(argv[0])
    with beds.make(context.tools, bed_name) as place:
        env = {"XDG_RUNTIME_DIR": place.directory}
        ends = place.spawn_pair(argv, {"env": env}, {"env": env})
        of = ("pid", ",".join(str(end.pid) for end in ends))

        def connected():
            # The side that only receives stays in RTR.
            qps = shown(context, place, 1, "qp", "type", "RC", "state",
                        "RTR,RTS", *of)
            return len(qps) >= 4 and sum(q["bytes-acked"] > 0
                                         for q in qps) >= 2

        bed.await_true(connected, 20, "two connections")
        qps = shown(context, place, 1, "qp", *of)
        sides = [[q for q in qps if q["pid"] == end.pid] for end in ends]
        context.check([len(side) for side in sides] == [2, 2], qps)
        context.check(sorted(q["rqpn"] for q in sides[0]) ==
                      sorted(q["lqpn"] for q in sides[1]), qps)
        for end, side in zip(ends, sides):
            pid = str(end.pid)
            domain = one(shown(context, place, 1, "pd", "pid", pid), context)
            queues = shown(context, place, 1, "cq", "pid", pid)
            for qp in side:
                context.check(qp["comm"] == "ib_write_bw" and
                              qp["hop-limit"] > 0 and
                              qp["udp-src-port"] >= 0xC000, qp)
                if qp["state"] == "RTS":
                    context.check(qp["retry-cnt"] == 7 and
                                  qp["timeout-us"] > 0, qp)
                context.check(qp["pdn"] == domain["pdn"], (qp, domain))
                context.check(qp["scqn"] in [q["cqn"] for q in queues],
                              (qp, queues))
                picked = shown(context, place, 1, "qp", "pid", pid, "lqpn",
                               hex(qp["lqpn"]))
                context.check(one(picked, context)["lqpn"] == qp["lqpn"], picked)
            regions = shown(context, place, 1, "mr", "pid", pid)
            context.check(regions and all("remote-write" in r["access"]
                                          for r in regions), regions)
            for kind, count in (("Qp", 2), ("Pd", 1)):
                memory = one(shown(context, place, 1, "memory", "type", kind,
                                   "pid", pid), context)
                context.check(memory["count"] == count and
                              memory["bytes"] > 0, memory)
            device = one(shown(context, place, 1, "dev", "pid", pid), context)
            context.check(device["qps"] == 2 and device["pds"] == 1, device)


def begin_transfer(context, place, argv, variables=None):
    """Starts a server and a client, and returns them once the client has sent
    something."""
    env = {"XDG_RUNTIME_DIR": place.directory} | (variables or {})
    server, client = place.spawn_pair(argv, {"env": env}, {"env": env})

    def sends():
        qps = shown(context, place, 1, "qp", "pid", str(client.pid))
        return qps and (qps[0].get("bytes-acked") or qps[0].get("bytes-sent"))

    bed.await_true(sends, 20, "a transfer")
    return server, client


def begin_rping_server(context, place, argv, env):
    """Starts it, and returns it once it listens."""
    server = place.spawn(0, [*argv, "-s"], env=env)

    def listens():
        # Exit status 1 as long as no program has an RNIC.
        result = place.run(1, [context.tools.urnic, "show", "cm_id", "state",
                               "LISTEN", "pid", str(server.pid)], rnic=False,
                           env=env)
        return result.status == 0 and "LISTEN" in result.out

    bed.await_true(listens, 20, "a listener")
    return server


def begin_rping(context, place, variables=None):
    """Starts rping's server and client, and returns them once they are
    connected."""
    argv = ["rping", "-a", beds.SERVER_IP["v4"], "-p", "7999", "-C", "1000000"]
    env = {"XDG_RUNTIME_DIR": place.directory} | (variables or {})
    server = begin_rping_server(context, place, argv, env)
    client = place.spawn(1, [*argv, "-c"], env=env)

    def connected():
        ids = shown(context, place, 1, "cm_id", "state", "CONNECT", "pid",
                    f"{server.pid},{client.pid}")
        return len(ids) == 2

    bed.await_true(connected, 20, "a connection")
    return server, client


def show_of_rdma_cm(context, bed_name):
    """rdma_cm ids and, on iWARP, TCP connections name each other and their
    queue pairs."""
    context.need("rping")
    with beds.make(context.tools, bed_name) as place:
        server, client = begin_rping(context, place)
        listener = one(shown(context, place, 1, "cm_id", "pid",
                             str(server.pid), "state", "LISTEN"), context)
        context.check(listener["src-addr"] == beds.SERVER_IP["v4"] + ":7999",
                      listener)
        ours, theirs = (one(shown(context, place, 1, "cm_id", "pid",
                                  str(end.pid), "state", "CONNECT"), context)
                        for end in (server, client))
        context.check(ours["src-addr"] == theirs["dst-addr"], (ours, theirs))
        context.check(theirs["src-addr"] == ours["dst-addr"], (ours, theirs))
        for end, cm_id in ((server, ours), (client, theirs)):
            qp = one(shown(context, place, 1, "qp", "pid", str(end.pid)),
                     context)
            context.check(qp["lqpn"] == cm_id["lqpn"], (qp, cm_id))
            context.check(cm_id["ps"] == "TCP" and cm_id["qp-type"] == "RC",
                          cm_id)
            if not bed_name.startswith(beds.IWARP):
                continue
            tcp = one(shown(context, place, 1, "tcp", "pid", str(end.pid),
                            "state", "ESTABLISHED"), context)
            context.check(tcp["lqpn"] == qp["lqpn"], (tcp, qp))
            context.check(tcp["src-addr"] == cm_id["src-addr"] and
                          tcp["dst-addr"] == cm_id["dst-addr"], (tcp, cm_id))
            context.check(tcp["mpa-revision"] == 2 and tcp["crc"] == "yes" and
                          tcp["segments-sent"] > 0, tcp)
        if bed_name.startswith(beds.IWARP):
            listen = one(shown(context, place, 1, "tcp", "pid",
                               str(server.pid), "state", "LISTEN"), context)
            context.check(listen["src-addr"] == listener["src-addr"], listen)


for _bed in ("vhost", "iwarp-vhost"):
    suite.add(f"{_bed}/show-of-rdma-cm",
              functools.partial(show_of_rdma_cm, bed_name=_bed))


def rates_and_metrics(context, bed_name):
    """urnic top has the rates of a transfer, and what urnic export prints is
    OpenMetrics for the parser of Prometheus' own client library."""
    context.need("rping")
    with beds.make(context.tools, bed_name) as place:
        client = begin_rping(context, place)[1]
        env = {"XDG_RUNTIME_DIR": place.directory}

        def urnic(*words):
            result = place.run(1, [context.tools.urnic, *words], rnic=False,
                               env=env)
            context.check_ok(result)
            return result.out

        qp = one(shown(context, place, 1, "qp", "pid", str(client.pid)),
                 context)
        table = urnic("top", "-b", "-n", "1", "-d", "0.5")
        line = one([words for words in map(str.split, table.splitlines())
                    if words[1:3] == [str(client.pid), str(qp["lqpn"])]],
                   context)
        context.check(line[6] not in ("0", "-"), table)
        path = os.path.join(place.directory, "urnic.prom")
        urnic("export", "--qps", "--output", path)
        with open(path, encoding="utf8") as file:
            text = file.read()
        parsed = place.run(1, ["/usr/bin/python3", "-c", PARSE_METRICS, path],
                           rnic=False)
        context.check_ok(parsed)
        families = json.loads(parsed.out)
        context.check(families["urnic_port_rx_packets"] == "counter" and
                      families["urnic_link_up"] == "gauge", families)
        acked = re.search(r'urnic_qp_bytes_acked_total\{[^}]*pid="%d",[^}]*'
                          r'lqpn="%d"[^}]*\} (\d+)' % (client.pid, qp["lqpn"]),
                          text)
        context.check(acked and int(acked.group(1)) > 0, text)
        ports = shown(context, place, 1, "stat", "list", "port", "pid",
                      str(client.pid))
        context.check(one(ports, context)["tx-packets"] > 0, ports)


PARSE_METRICS = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
with open(sys.argv[1], encoding="utf8") as file:
    families = list(text_string_to_metric_families(file.read()))
print(json.dumps({family.name: family.type for family in families}))
"""

for _bed in ("vhost", "iwarp-vhost"):
    suite.add(f"{_bed}/rates-and-metrics",
              functools.partial(rates_and_metrics, bed_name=_bed))


@suite.test("vhost/rates-of-datagrams")
def rates_of_datagrams(context):
    """Nothing acknowledges them, so what is sent is counted."""
    argv = ["ib_send_bw", "-c", "UD", "-x", "3", "-F", "-D", "10"]
    context.need(argv[0])
    with beds.make(context.tools, "vhost") as place:
        client = begin_transfer(context, place, argv)[1]
        pid = str(client.pid)
        qp = one(shown(context, place, 1, "qp", "pid", pid), context)
        context.check(qp["bytes-sent"] >= qp["packets-sent"] > 0, qp)
        result = place.run(1, [context.tools.urnic, "top", "-b", "-n", "1",
                               "-d", "0.5"], rnic=False,
                           env={"XDG_RUNTIME_DIR": place.directory})
        context.check_ok(result)
        line = one([words for words in map(str.split, result.out.splitlines())
                    if words[1:3] == [pid, str(qp["lqpn"])]], context)
        context.check(float(line[5]) > 0 and line[6] not in ("0", "-"), line)


@suite.test("vhost/errors-in-a-log")
def errors_in_a_log(context):
    """A refused call is in urnic show error and in the log of JSON lines, in
    the same words."""
    argv = ["ibv_rc_pingpong", "-g", "3", "-r", "100000"]
    context.need(argv[0])
    with beds.make(context.tools, "vhost") as place:
        log = os.path.join(place.directory, "errors")
        result = place.run(0, argv, env={"URNIC_LOG": f"json:{log}"})
        context.check(result.status != 0, result)
        with open(log, encoding="utf8") as lines:
            errors = [json.loads(line) for line in lines]
        error = one([e for e in errors if e["code"] == "URN2001"], context)
        context.check("max_recv_wr 100000 is out of range" in error["why"],
                      error)
        context.check(error["comm"] == "ibv_rc_pingpong" and
                      error["action"] != "", error)


@suite.test("vhost/failed-connections-in-a-log")
def failed_connections_in_a_log(context):
    """A host that does not exist, and one where nobody listens."""
    context.need("rping")
    server, nobody = beds.SERVER_IP["v4"], beds.SERVER_IP["v4"] + "9"
    with beds.make(context.tools, "vhost") as place:
        env = {"XDG_RUNTIME_DIR": place.directory}
        begin_rping_server(context, place, ["rping", "-a", server], env)
        for address, code, text in (
                (nobody, "URN3002", f"{nobody}:7999: ADDR_ERROR -110: "),
                (server, "URN5007", f"{server}:7999: REJECTED 8: ")):
            log = os.path.join(place.directory, code)
            result = place.run(1, ["rping", "-c", "-a", address, "-p", "7999"],
                               env=env | {"URNIC_LOG": f"json:{log}"})
            context.check(result.status != 0, result)
            with open(log, encoding="utf8") as lines:
                errors = [json.loads(line) for line in lines]
            error = one([e for e in errors if e["code"] == code], context)
            context.check(text in error["why"] and
                          error["peer"] == f"{address}:7999", error)


@suite.test("vhost/events-of-a-silent-peer")
def events_of_a_silent_peer(context):
    """With whom, since when and how often: while retries go on. The peer is
    stopped, and is not asked."""
    seconds = 2 ** 18 * 4.096e-6  # of -u 18
    argv = ["ib_write_bw", "-x", "3", "-F", "-D", "30", "-u", "18"]
    context.need(argv[0])
    with beds.make(context.tools, "vhost") as place:
        server, client = begin_transfer(context, place, argv)
        server.signal(signal.SIGSTOP)
        pid = str(client.pid)
        events = []

        def silence():
            events[:] = shown(context, place, 1, "event", "pid", pid, "event",
                              "timeout")
            return len(events) >= 2

        bed.await_true(silence, 6 * seconds, "two time-outs")
        qp = one(shown(context, place, 1, "qp", "pid", pid), context)
        context.check(qp["dst-addr"] == beds.SERVER_IP["v4"], qp)
        context.check(qp["timeouts"] >= 2 and qp["unacked-packets"] > 0, qp)
        first, second = events[:2]
        context.check(first["lqpn"] == qp["lqpn"], (events, qp))
        context.check(first["psn"] == second["psn"], events)
        context.check([first["retries-left"], second["retries-left"]] == [6, 5],
                      events)
        apart = when(second) - when(first)
        context.check(0.9 * seconds < apart < 2 * seconds, events)
        server.signal(signal.SIGCONT)


@suite.test("vhost/code-of-a-dead-peer")
def code_of_a_dead_peer(context):
    """perftest prints vendor_err of the completion that failed, which urnic
    explains."""
    argv = ["ib_write_bw", "-x", "3", "-F", "-D", "30", "-u", "10"]
    context.need(argv[0])
    with beds.make(context.tools, "vhost") as place:
        server, client = begin_transfer(context, place, argv)
        server.signal(signal.SIGKILL)
        result = client.wait(30)
        output = result.out + result.err
        code = re.search(r"Failed status 12.* syndrom (0x[0-9a-f]+)", output)
        context.check(code, output)
        result = place.run(1, [context.tools.urnic, "explain",
                               str(int(code.group(1), 16))], rnic=False)
        context.check_ok(result)
        context.check(result.out.startswith(
            "URN1001 (error): The peer acknowledged nothing"), result.out)


for _bed in ("vhost", "veth9000"):
    suite.add(f"{_bed}/show-in-mid-transfer",
              functools.partial(show_in_mid_transfer, bed_name=_bed), True)
