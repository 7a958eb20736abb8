"""Threads that use pyverbs on one context, on an RNIC that talks to itself.

Six threads have a completion queue and a queue pair each, and exchange messages
in pairs. Two more threads have a queue pair each and poll one completion queue
together: a thread that takes the other's completion hands it over. They are
switched every 50 us.

pyverbs keeps the interpreter's lock in every call, so calls of verbs follow
each other; but each may be in another thread than the one before. A thread that
sleeps in get_cq_event would stop all others, so all of them poll.

usage: pyverbs_threads.py GID_INDEX    (of the device urnic0)
"""

import collections
import random
import sys
import threading
import time

from pyverbs import enums
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

MESSAGES = 150
LARGEST = 20000
DEPTH = 4
FAILED = []


class OwnQueue:
    """A completion queue of one thread."""

    def __init__(self, context):
        self.cq = CQ(context, 2 * DEPTH)

    def completion(self, _qp_number):
        while True:
            found = self.cq.poll(1)[1]
            if found:
                return found[0]
            time.sleep(0)


class SharedQueue:
    """A completion queue that two threads poll at the same time."""

    def __init__(self, context):
        self.cq = CQ(context, 4 * DEPTH)
        self.found = collections.defaultdict(collections.deque)

    def completion(self, qp_number):
        while True:
            try:
                return self.found[qp_number].popleft()
            except IndexError:
                pass
            for one in self.cq.poll(1)[1]:
                self.found[one.qp_num].append(one)
            time.sleep(0)


class End:
    """A queue pair, its memory, and where its completions come."""

    def __init__(self, context, pd, queue, gid_index):
        self.queue = queue
        self.gid_index = gid_index
        self.context = context
        # To send from, and to receive into.
        self.mr = MR(pd, 2 * LARGEST, enums.IBV_ACCESS_LOCAL_WRITE)
        self.qp = QP(pd, QPInitAttr(
            qp_type=enums.IBV_QPT_RC, scq=queue.cq, rcq=queue.cq, sq_sig_all=1,
            cap=QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH)))

    def connect(self, peer):
        gid = self.context.query_gid(1, self.gid_index)
        attributes = QPAttr(port_num=1)
        attributes.dest_qp_num = peer.qp.qp_num
        attributes.path_mtu = enums.IBV_MTU_1024
        attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 1
        attributes.min_rnr_timer = 12
        attributes.timeout = 18
        attributes.retry_cnt = attributes.rnr_retry = 7
        attributes.ah_attr = AHAttr(
            port_num=1, is_global=1,
            gr=GlobalRoute(dgid=gid, sgid_index=self.gid_index))
        self.qp.to_rts(attributes)

    def exchange(self, seed):
        """Both ends of a pair send the same and know what comes."""
        numbers = random.Random(seed)
        for number in range(MESSAGES):
            data = numbers.randbytes(1 + numbers.randrange(LARGEST))
            self.qp.post_recv(RecvWR(
                num_sge=1, sg=[SGE(self.mr.buf + LARGEST, LARGEST,
                                   self.mr.lkey)]))
            self.mr.write(data, len(data))
            self.qp.post_send(SendWR(
                opcode=enums.IBV_WR_SEND, num_sge=1,
                sg=[SGE(self.mr.buf, len(data), self.mr.lkey)]))
            for _ in range(2):
                one = self.queue.completion(self.qp.qp_num)
                assert one.status == enums.IBV_WC_SUCCESS, one.status
                if one.opcode == enums.IBV_WC_RECV:
                    assert one.byte_len == len(data), one.byte_len
            got = self.mr.read(len(data), LARGEST)
            assert got == data, f"message {number} has other data"

    def close(self):
        self.qp.close()
        self.mr.close()


def run(end, seed):
    try:
        end.exchange(seed)
    except Exception as error:  # pylint: disable=broad-except
        FAILED.append(f"{threading.current_thread().name}: {error!r}")


def main():
    gid_index = int(sys.argv[1])
    sys.setswitchinterval(50e-6)
    with Context(name="urnic0") as context, PD(context) as pd:
        queues = [OwnQueue(context) for _ in range(6)]
        queues += [SharedQueue(context)] * 2
        ends = [End(context, pd, queue, gid_index) for queue in queues]
        for number, end in enumerate(ends):
            end.connect(ends[number ^ 1])
        threads = [threading.Thread(target=run, args=(end, number // 2),
                                    daemon=True)
                   for number, end in enumerate(ends)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not FAILED:
                thread.join(0.1)
        if FAILED:
            sys.exit("\n".join(FAILED))
        for end in ends:
            end.close()
    print(f"ok: {len(ends) * MESSAGES} messages")


if __name__ == "__main__":
    main()
