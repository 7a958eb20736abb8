"""iSCSI over RDMA, unmodified: tgt as the target, libiscsi as the initiator
(its own programs, and QEMU's block driver).

Its login is what depends on the order of completions: tgt lets a connection
into full feature phase when its last login response is acknowledged, and the
initiator's first command comes in one burst with that acknowledgement. A tgt
that sees the command first throws it away, and libiscsi gives up after a
second of silence.
"""

import functools
import os
import re

import bed
import beds
import suite

NAME = "iqn.2026-01.org.example:disk"
URL = f"iser://10.1.0.1/{NAME}/1"
INITIATOR = "iqn.2026-01.org.example:initiator"
SECOND_INITIATOR = INITIATOR + "-2"
DISK_BYTES = 64 << 20
BLOCK_BYTES = 256 << 10
# tgtd's message about a command that it receives before its last login response
# is acknowledged.
THROWN_AWAY = "non-login pdu during login phase"
# Some timeouts are a second, which is short on a shared machine.
FIRST = ("nice", "-n", "-20")


class Target:
    """tgtd on side 0 of `place`, with one disk of zeros."""

    def __init__(self, place):
        self._place = place
        # The default path is shared by all of the machine.
        self._env = {"TGT_IPC_SOCKET": os.path.join(place.directory, "tgt")}
        self.disk = os.path.join(place.directory, "disk")
        with open(self.disk, "wb") as file:
            file.truncate(DISK_BYTES)
        self.process = place.spawn(0, ["tgtd", "-f", "-C", "1"],
                                   env=self._env, wrap=FIRST)
        bed.await_true(lambda: not self.process.running() or
                       self._admin("--op", "show", "--mode", "target")
                       .status == 0, 20, "tgtd")
        if not self.process.running():
            raise bed.Died(f"tgtd ended: {self.process.result()}")
        target = ["--mode", "target", "--tid", "1"]
        for command in (
                ["--op", "new", *target, "-T", NAME],
                ["--op", "new", "--mode", "logicalunit", "--tid", "1",
                 "--lun", "1", "-b", self.disk],
                ["--op", "bind", *target, "-I", "ALL"],
                ["--op", "bind", *target, "-Q", INITIATOR],
                ["--op", "bind", *target, "-Q", SECOND_INITIATOR]):
            result = self._admin(*command)
            if result.status != 0:
                raise bed.Died(f"{result}\n{self.process.output()}")

    def _admin(self, *command):
        return self._place.run(0, ["tgtadm", "-C", "1", "--lld", "iser",
                                   *command], env=self._env, rnic=False)

    def initiate(self, program, *arguments, seconds=60):
        """The Result of a program of the initiator's."""
        # libiscsi 1.19 does not clear the memory of a connection, so a second
        # connection finds the bytes of the first there. With this variable
        # malloc() returns zeros.
        env = {"MALLOC_PERTURB_": "255"} if program == "iscsi-test-cu" else {}
        result = self._place.run(1, [program, *arguments], seconds=seconds,
                                 env=env, wrap=FIRST)
        if "revents is not POLLIN" in result.out + result.err and \
                THROWN_AWAY not in self.process.output()[1]:
            raise bed.Timeout(f"a second without an event: {result}")
        return result


def with_target(context, bed_name, body):
    context.need("tgtd", "tgtadm", "iscsi-inq", "qemu-img", "qemu-io")
    with beds.make(context.tools, bed_name) as place:
        body(context, place, Target(place))


def log_in(context, _place, target, times):
    """Login, a command, logout; again and again."""
    for _ in range(times):
        result = target.initiate("iscsi-inq", "-i", INITIATOR, URL)
        context.check_ok(result)
        context.check("Vendor:IET" in result.out, result)
    context.check(THROWN_AWAY not in target.process.output()[1],
                  target.process.output()[1])
    result = target.initiate("iscsi-readcapacity16", "-i", INITIATOR, URL)
    context.check_ok(result)
    context.check(f"Total size:{DISK_BYTES}" in result.out, result)


def copy(context, place, target, times):
    """QEMU writes to the disk and reads all of it. In blocks of 256 KB: that is
    the most that libiscsi 1.19 can do by iSER."""
    image = "driver=raw,file.driver=iscsi,file.transport=iser," \
        f"file.portal=10.1.0.1,file.target={NAME},file.lun=1," \
        f"file.initiator-name={INITIATOR}"
    block, result = os.path.join(place.directory, "block"), \
        os.path.join(place.directory, "result")
    for number in range(times):
        wanted = bytearray(os.urandom(DISK_BYTES))
        with open(target.disk, "wb") as file:
            file.write(wanted)
        data = os.urandom(BLOCK_BYTES)
        with open(block, "wb") as file:
            file.write(data)
        writes = []
        for at in range(number * BLOCK_BYTES, DISK_BYTES, 16 * BLOCK_BYTES):
            wanted[at:at + BLOCK_BYTES] = data
            writes += ["-c", f"write -s {block} {at} {BLOCK_BYTES}"]
        context.check_ok(target.initiate("qemu-io", "--image-opts", *writes,
                                         image))
        context.check_ok(target.initiate(
            "qemu-img", "dd", "--image-opts", "-O", "raw",
            f"bs={BLOCK_BYTES}", f"if={image}", f"of={result}"))
        for path in (target.disk, result):
            with open(path, "rb") as file:
                context.check(file.read() == wanted,
                              f"{path} is not what was written")


# The tests that tgt and libiscsi 1.19 pass over iSER. Not the rest of Read10
# and Write10 (Async), which has more commands under way than libiscsi has
# descriptors (256) and crashes it with a null pointer. Not Inquiry and
# ModeSense6, which ask for residual lengths that libiscsi does not report over
# iSER. Not ExtendedCopy, whose writes are too long for it. The others fail over
# TCP, too.
CONFORMANCE = ("CompareAndWrite", "MultipathIO", "OrWrite", "Read10.Simple",
               "Read12", "Read16", "Unmap", "Verify16", "Write10.Simple",
               "Write12", "Write16", "WriteAtomic16", "WriteSame16",
               "WriteVerify16")


def conform(context, _place, target, tests):
    """libiscsi's conformance tests."""
    result = target.initiate("iscsi-test-cu", "--dataloss", "-i", INITIATOR,
                             "-I", SECOND_INITIATOR, f"--test={tests}", URL,
                             seconds=300)
    context.check_ok(result)
    line = re.search(r"^ +tests +(\d+) +(\d+) +(\d+) +(\d+)", result.out, re.M)
    context.check(line is not None and line[2] == line[3] != "0" and
                  line[4] == "0", result)
    context.note(f"{line[3]} tests")


for _bed in ("vhost", "veth9000", "iwarp-vhost", "iwarp-veth9000"):
    for _name, _body, _core in (
            ("login", functools.partial(log_in, times=10),
             _bed.endswith("vhost")),
            ("login/100", functools.partial(log_in, times=100), False),
            ("qemu-img", functools.partial(copy, times=1),
             _bed.endswith("vhost")),
            ("qemu-img/10", functools.partial(copy, times=10), False)):
        suite.add(f"{_bed}/iser/{_name}", functools.partial(
            with_target, bed_name=_bed, body=_body), _core)
    for _tests in CONFORMANCE:
        suite.add(f"{_bed}/iser/test-cu/{_tests}", functools.partial(
            with_target, bed_name=_bed,
            body=functools.partial(conform, tests=f"SCSI.{_tests}")),
            (_bed, _tests) == ("vhost", "Read16"))
