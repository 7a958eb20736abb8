"""Two ranks that say all sorts of things to each other and check every byte.
Started by test_openmpi.py, behind mpirun."""

import random
import sys

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
PEER = 1 - RANK


def content(of_rank, length):
    return random.Random(of_rank << 32 | length).randbytes(length)


def expect(got, wanted, what):
    if got != wanted:
        sys.exit(f"rank {RANK}: {what} is wrong")


def messages():
    """Eager and rendezvous, both ways at once."""
    for length in (0, 1, 8, 1000, 8191, 65536, 1 << 20, (4 << 20) + 13):
        got = bytearray(length)
        WORLD.Sendrecv(content(RANK, length), PEER, recvbuf=got, source=PEER)
        expect(got, content(PEER, length), f"a message of {length} bytes")


def questions_and_answers():
    got = bytearray(8)
    for number in range(2000):
        if number % 2 == RANK:
            WORLD.Send(number.to_bytes(8, "little"), PEER)
        else:
            WORLD.Recv(got, PEER)
            expect(int.from_bytes(got, "little"), number, "a number")


def many_at_once():
    lengths = [(number * 7919) % 40000 for number in range(200)]
    got = [bytearray(length) for length in lengths]
    requests = [WORLD.Irecv(buffer, PEER, tag)
                for tag, buffer in enumerate(got)]
    requests += [WORLD.Isend(content(RANK, length), PEER, tag)
                 for tag, length in enumerate(lengths)]
    MPI.Request.Waitall(requests)
    for buffer, length in zip(got, lengths):
        expect(buffer, content(PEER, length), "one of many messages")


def collectives():
    expect(WORLD.allreduce(RANK + 1), 3, "a sum")
    expect(WORLD.bcast(content(0, 100000) if RANK == 0 else None),
           content(0, 100000), "a broadcast")
    expect(WORLD.alltoall([RANK * 2, RANK * 2 + 1]), [RANK, 2 + RANK],
           "an exchange of all with all")
    WORLD.Barrier()


def one_sided():
    """Puts, gets and atomics into the other's memory."""
    window = MPI.Win.Allocate(1 << 20, comm=WORLD)
    window.Lock_all()
    window.Put(content(RANK, 1 << 19), PEER)
    window.Flush(PEER)
    WORLD.Barrier()
    got = bytearray(1 << 19)
    window.Get(got, PEER)
    window.Flush(PEER)
    expect(got, content(RANK, 1 << 19), "what was put and got")
    expect(bytes(window.tomemory()[:1 << 19]), content(PEER, 1 << 19),
           "what the other has put")
    WORLD.Barrier()
    window.tomemory()[1 << 19:(1 << 19) + 8] = bytes(8)
    window.Sync()
    WORLD.Barrier()
    one = (1).to_bytes(8, "little")
    for _ in range(100):
        for rank in range(2):
            window.Fetch_and_op([one, MPI.INT64_T], [bytearray(8), MPI.INT64_T],
                                rank, 1 << 19)
    window.Flush_all()
    WORLD.Barrier()
    window.Get([got, 8, MPI.BYTE], PEER, 1 << 19)
    window.Flush(PEER)
    expect(int.from_bytes(got[:8], "little"), 200, "a counter of both")
    window.Unlock_all()
    window.Free()


for part in (messages, questions_and_answers, many_at_once, collectives,
             one_sided):
    part()
print(f"rank {RANK} of {WORLD.Get_size()}: all is well", flush=True)
