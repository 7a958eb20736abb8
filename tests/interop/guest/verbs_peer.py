"""One end of a verbs scenario in the guest: carries out what the harness asks,
with pyverbs on the kernel's rxe. The language is that of ../verbs_peer.cc;
README.md describes it.
"""

import os
import socket
import struct
import time

import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

DEVICE = "rxe0"
QKEY = 0x11111111
BLOCK = 65536
# The first 64 KB of the pattern for seed 0.
PATTERN = bytes((i * 7 + (i >> 8) * 13) & 255 for i in range(BLOCK))
SHIFT = [bytes((value + by) & 255 for value in range(256))
         for by in range(256)]

TYPES = {"rc": e.IBV_QPT_RC, "uc": e.IBV_QPT_UC, "ud": e.IBV_QPT_UD}
OPERATIONS = {
    "send": e.IBV_WR_SEND, "send-imm": e.IBV_WR_SEND_WITH_IMM,
    "send-inv": e.IBV_WR_SEND_WITH_INV, "write": e.IBV_WR_RDMA_WRITE,
    "write-imm": e.IBV_WR_RDMA_WRITE_WITH_IMM, "read": e.IBV_WR_RDMA_READ,
    "swap": e.IBV_WR_ATOMIC_CMP_AND_SWP, "add": e.IBV_WR_ATOMIC_FETCH_AND_ADD,
    "bind": e.IBV_WR_BIND_MW, "local-inv": e.IBV_WR_LOCAL_INV}
ATOMICS = ("swap", "add")
MTUS = {256: e.IBV_MTU_256, 512: e.IBV_MTU_512, 1024: e.IBV_MTU_1024,
        2048: e.IBV_MTU_2048, 4096: e.IBV_MTU_4096}
ACCESS = {"l": e.IBV_ACCESS_LOCAL_WRITE, "w": e.IBV_ACCESS_REMOTE_WRITE,
          "r": e.IBV_ACCESS_REMOTE_READ, "a": e.IBV_ACCESS_REMOTE_ATOMIC,
          "b": e.IBV_ACCESS_MW_BIND}
FLAGS = {"s": e.IBV_SEND_SOLICITED, "f": e.IBV_SEND_FENCE,
         "i": e.IBV_SEND_INLINE}
STATES = {e.IBV_QPS_RESET: "reset", e.IBV_QPS_INIT: "init",
          e.IBV_QPS_RTR: "rtr", e.IBV_QPS_RTS: "rts", e.IBV_QPS_ERR: "err"}


def pattern(seed, begin, count):
    """`count` bytes of the pattern from byte `begin` on."""
    parts = []
    for block in range(begin // BLOCK, (begin + count) // BLOCK + 1):
        parts.append(PATTERN.translate(SHIFT[(31 * block + seed) & 255]))
    skip = begin % BLOCK
    return b"".join(parts)[skip:skip + count]


def access_of(letters):
    return sum(ACCESS[letter] for letter in letters)


class Wrong(Exception):
    """The answer to a request that cannot be carried out."""


class Peer:
    """Objects by name, and a method for each request."""

    def __init__(self, stream):
        self._stream = stream
        self._context = Context(name=DEVICE)
        self._pd = PD(self._context)
        self._named = {}

    def serve(self):
        while line := self._stream.readline():
            verb, *pairs = line.decode().split()
            try:
                words = dict(pair.split("=", 1) for pair in pairs)
                answer = getattr(self, "do_" + verb)(**words) or {}
                text = "ok " + " ".join(f"{key}={value}"
                                        for key, value in answer.items())
            except Exception as error:  # pylint: disable=broad-except
                text = f"error {type(error).__name__}: {error}"
                text = " ".join(text.split())
            self._stream.write(text.strip().encode() + b"\n")
            self._stream.flush()

    # Memory.

    def do_memory(self, name, bytes, access="lwra"):
        region = MR(self._pd, int(bytes), access_of(access))
        self._named[name] = region
        return {"address": region.buf, "rkey": region.rkey}

    def do_fill(self, memory, bytes, seed=0, at=0, begin=0):
        data = pattern(int(seed), int(begin), int(bytes))
        self._named[memory].write(data, int(bytes), int(at))

    def do_check(self, memory, bytes, seed=0, at=0, begin=0):
        wanted = pattern(int(seed), int(begin), int(bytes))
        found = self._named[memory].read(int(bytes), int(at))
        if wanted != found:
            where = next(i for i in range(int(bytes))
                         if wanted[i] != found[i])
            raise Wrong(f"byte {where} of {bytes} is {found[where]}, "
                        f"not {wanted[where]}")

    def do_put(self, memory, value, at=0):
        self._named[memory].write(struct.pack("<Q", int(value)), 8, int(at))

    def do_get(self, memory, at=0):
        data = self._named[memory].read(8, int(at))
        return {"value": struct.unpack("<Q", data)[0]}

    def do_window(self, name):
        self._named[name] = MW(self._pd, e.IBV_MW_TYPE_2)
        return {"rkey": self._named[name].rkey}

    # Queues.

    def do_shared(self, name, receives=64):
        self._named[name] = SRQ(self._pd, SrqInitAttr(
            SrqAttr(max_wr=int(receives))))

    def do_create(self, name, gid_index, type="rc", sends=64, receives=64,
                  shared=None):
        cq = CQ(self._context, 256)
        cap = QPCap(max_send_wr=int(sends), max_recv_wr=int(receives),
                    max_send_sge=2, max_recv_sge=2, max_inline_data=64)
        qp = QP(self._pd, QPInitAttr(
            qp_type=TYPES[type], scq=cq, rcq=cq, cap=cap, sq_sig_all=1,
            srq=self._named[shared] if shared else None))
        self._named[name] = qp
        self._named[name + ".cq"] = cq
        self._named[name + ".type"] = type
        return {"qpn": qp.qp_num,
                "gid": self._context.query_gid(1, int(gid_index)).gid}

    def do_connect(self, qp, gid_index, qpn=0, gid=None, psn=0, peer_psn=0,
                   mtu=1024, timeout=16, retries=7, rnr_retries=7,
                   rnr_timer=12, reads=4, access="wra"):
        queue, kind = self._named[qp], self._named[qp + ".type"]
        reliable = kind == "rc"
        attributes = QPAttr(qp_state=e.IBV_QPS_INIT, port_num=1)
        mask = e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT
        if kind == "ud":
            attributes.qkey = QKEY
            mask |= e.IBV_QP_QKEY
        else:
            attributes.qp_access_flags = access_of(access)
            mask |= e.IBV_QP_ACCESS_FLAGS
        queue.modify(attributes, mask)
        attributes = QPAttr(qp_state=e.IBV_QPS_RTR)
        mask = e.IBV_QP_STATE
        if kind != "ud":
            attributes.path_mtu = MTUS[int(mtu)]
            attributes.dest_qp_num = int(qpn)
            attributes.rq_psn = int(peer_psn)
            attributes.ah_attr = self._path(gid, gid_index)
            mask |= (e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN |
                     e.IBV_QP_RQ_PSN)
        if reliable:
            attributes.max_dest_rd_atomic = int(reads)
            attributes.min_rnr_timer = int(rnr_timer)
            mask |= e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER
        queue.modify(attributes, mask)
        attributes = QPAttr(qp_state=e.IBV_QPS_RTS)
        attributes.sq_psn = int(psn)
        mask = e.IBV_QP_STATE | e.IBV_QP_SQ_PSN
        if reliable:
            attributes.timeout = int(timeout)
            attributes.retry_cnt = int(retries)
            attributes.rnr_retry = int(rnr_retries)
            attributes.max_rd_atomic = int(reads)
            mask |= (e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT |
                     e.IBV_QP_RNR_RETRY | e.IBV_QP_MAX_QP_RD_ATOMIC)
        queue.modify(attributes, mask)

    @staticmethod
    def _path(gid, gid_index):
        # pyverbs accepts only the long form.
        long = socket.inet_pton(socket.AF_INET6, gid).hex(":", 2)
        route = GlobalRoute(dgid=GID(long), sgid_index=int(gid_index),
                            hop_limit=64)
        return AHAttr(gr=route, is_global=1, port_num=1)

    def do_handle(self, name, gid, gid_index):
        self._named[name] = AH(self._pd, attr=self._path(gid, gid_index))

    def do_error(self, qp):
        self._named[qp].modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)

    def do_state(self, qp):
        attributes, _ = self._named[qp].query(e.IBV_QP_STATE)
        return {"state": STATES.get(attributes.qp_state, attributes.qp_state)}

    def do_destroy(self, name):
        self._named.pop(name).close()

    # Work.

    def _entry(self, memory, at, count):
        region = self._named[memory]
        return SGE(region.buf + int(at), int(count), region.lkey)

    def do_receive(self, qp, memory, bytes, at=0, id=0):
        self._named[qp].post_recv(
            RecvWR(int(id), 1, [self._entry(memory, at, bytes)]))

    def do_post(self, qp, op, memory=None, bytes=0, at=0, id=0, address=0,
                rkey=0, imm=0, compare=0, swap=0, flags="", handle=None,
                qpn=0, qkey=QKEY, window=None, access=""):
        bits = e.IBV_SEND_SIGNALED
        for letter in flags:
            bits |= FLAGS[letter]
        entries = []
        if memory is not None and op != "bind":
            entries = [self._entry(memory, at, bytes)]
        request = SendWR(int(id), num_sge=len(entries), sg=entries,
                         opcode=OPERATIONS[op], send_flags=bits)
        if op in ATOMICS:
            request.set_wr_atomic(int(rkey), int(address), int(compare),
                                  int(swap))
        elif op in ("write", "write-imm", "read"):
            request.set_wr_rdma(int(rkey), int(address))
        elif handle is not None:
            request.set_wr_ud(self._named[handle], int(qpn), int(qkey))
        if op.endswith("-imm"):
            request.imm_data = socket.htonl(int(imm))
        elif op.endswith("-inv"):
            request.imm_data = int(rkey)  # the same field
        answer = {}
        if op == "bind":
            region = self._named[memory]
            request.set_bind_wr(self._named[window], MWBindInfo(
                region, region.buf + int(at), int(bytes), access_of(access)))
            answer["rkey"] = request.rkey
        self._named[qp].post_send(request)
        return answer

    def do_poll(self, qp, count=1, seconds=10):
        """Up to `count` completions, as id:status:opcode:bytes:immediate."""
        cq = self._named[qp + ".cq"]
        end = time.monotonic() + float(seconds)
        found = []
        while True:
            _, some = cq.poll(int(count) - len(found))
            found += some
            if len(found) >= int(count) or time.monotonic() > end:
                break
            if not some:
                time.sleep(0.001)
        return {f"c{i}": self._completion(wc) for i, wc in enumerate(found)}

    @staticmethod
    def _completion(wc):
        imm = (socket.ntohl(wc.imm_data) if wc.wc_flags & e.IBV_WC_WITH_IMM
               else "")
        return f"{wc.wr_id}:{wc.status}:{wc.opcode}:{wc.byte_len}:{imm}"

    @staticmethod
    def do_hello():
        return {"kernel": os.uname().release}
