"""Pairs of queue pairs of one RNIC that fail, each in another way.

Prints a line of JSON for each failure: what it is, the queue pair that tells
it, the code, and the key of the region that it is about, if that is one. Then
it waits for a signal.

usage: failing_pairs.py GID_INDEX    (of the device urnic0)
"""

import json
import signal
import sys
import time

from pyverbs import enums
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

BYTES = 4096
RIGHTS = (enums.IBV_ACCESS_LOCAL_WRITE | enums.IBV_ACCESS_REMOTE_WRITE |
          enums.IBV_ACCESS_REMOTE_READ)


class End:
    """A queue pair, its completion queue and its memory."""

    def __init__(self, context, pd, gid_index, kind):
        self.context = context
        self.gid_index = gid_index
        self.cq = CQ(context, 16)
        self.mr = MR(pd, BYTES, RIGHTS)
        self.qp = QP(pd, QPInitAttr(
            qp_type=kind, scq=self.cq, rcq=self.cq, sq_sig_all=1,
            cap=QPCap(max_send_wr=4, max_recv_wr=4)))

    def connect(self, peer):
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = RIGHTS
        attributes.dest_qp_num = peer.qp.qp_num
        attributes.path_mtu = enums.IBV_MTU_1024
        attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 1
        attributes.min_rnr_timer = 12
        attributes.timeout = 10
        attributes.retry_cnt = 1
        attributes.rnr_retry = 7
        attributes.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(
            dgid=self.context.query_gid(1, self.gid_index),
            sgid_index=self.gid_index))
        self.qp.to_rts(attributes)

    def send(self, opcode=enums.IBV_WR_SEND, lkey=None, remote=None):
        wr = SendWR(wr_id=77, opcode=opcode, num_sge=1, sg=[SGE(
            self.mr.buf, 8, self.mr.lkey if lkey is None else lkey)])
        if remote is not None:
            wr.set_wr_rdma(*remote)
        self.qp.post_send(wr)

    def completion(self):
        while True:
            found = self.cq.poll(1)[1]
            if found:
                return found[0]
            time.sleep(0)


def tell(what, end, code, mr=None):
    print(json.dumps({"what": what, "lqpn": end.qp.qp_num, "code": code,
                      "key": None if mr is None else hex(mr.rkey)}),
          flush=True)


def main():
    gid_index = int(sys.argv[1])
    with Context(name="urnic0") as context, PD(context) as pd:
        kept = []

        def pair(kind):
            ends = [End(context, pd, gid_index, kind) for _ in range(2)]
            kept.extend(ends)
            ends[0].connect(ends[1])
            ends[1].connect(ends[0])
            return ends

        a, b = pair(enums.IBV_QPT_RC)
        a.send(enums.IBV_WR_RDMA_WRITE, remote=(b.mr.rkey ^ 1, b.mr.buf))
        assert a.completion().status == enums.IBV_WC_REM_ACCESS_ERR
        tell("write", a, "URN1003", a.mr)
        tell("write", b, "URN1902", b.mr)

        a, b = pair(enums.IBV_QPT_RC)
        a.send(enums.IBV_WR_RDMA_READ, remote=(b.mr.rkey, b.mr.buf + BYTES - 4))
        assert a.completion().status == enums.IBV_WC_REM_ACCESS_ERR
        tell("read", b, "URN1902", b.mr)

        a, b = pair(enums.IBV_QPT_RC)
        a.send(lkey=a.mr.lkey ^ 1)
        assert a.completion().status == enums.IBV_WC_LOC_PROT_ERR
        tell("send", a, "URN1008", a.mr)

        a, b = pair(enums.IBV_QPT_RC)
        b.qp.close()
        a.send()
        assert a.completion().status == enums.IBV_WC_RETRY_EXC_ERR
        tell("send", a, "URN1001", a.mr)

        a, b = pair(enums.IBV_QPT_UC)
        b.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(b.mr.buf, 8, b.mr.lkey ^ 1)]))
        a.send()
        assert a.completion().status == enums.IBV_WC_SUCCESS
        assert b.completion().status == enums.IBV_WC_LOC_PROT_ERR
        tell("receive", b, "URN1008", b.mr)

        a, b = pair(enums.IBV_QPT_UC)
        for _ in range(2):
            a.send(enums.IBV_WR_RDMA_WRITE, remote=(b.mr.rkey ^ 1, b.mr.buf))
            assert a.completion().status == enums.IBV_WC_SUCCESS
            assert not b.cq.poll(1)[1]
        tell("write", b, "URN1010", b.mr)

        print("ready", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
