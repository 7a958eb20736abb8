"""Programs of rdma_cm, each end on our RNIC or in the guest: how to name their
addresses, and how to start them."""

import shlex
import time

import vm

OURS = 0
# By family and side.
ADDRESS = {"v4": ("10.1.0.1", "10.1.0.2"), "v6": ("fd01::1", "fd01::2")}


def fill_in(command, family, side, server_side):
    """The words of a program on `side`: ADDRESS is the server's address, OWN
    the program's."""
    words = {"ADDRESS": ADDRESS[family][server_side],
             "OWN": ADDRESS[family][side]}
    return [words.get(word, word) for word in command.split()]


def start_server(lab, side, argv):
    if side == vm.GUEST:
        return lab.spawn_guest(shlex.join(argv), 90)
    return lab.spawn(OURS, argv)


def run_client(lab, side, argv, server=None):
    """Nothing shows when a server listens for rdma_cm, so the client is tried
    until it is not refused; with `server` until that has ended, since nothing
    shows when a group has a member, either."""
    for _ in range(20):
        result = run_at(lab, side, argv)
        if result.status == 0 and not (server and server.running()):
            break
        time.sleep(0.5)
    return result


def run_pair(lab, server_side, server_argv, client_argv, until_ended):
    """Both ends: (server, the client's result). The server may begin to listen
    between two connections of one client. It then has had some, and ends before
    a later client has got its own: both begin again."""
    for _ in range(3):
        server = start_server(lab, server_side, server_argv)
        client = run_client(lab, 1 - server_side, client_argv,
                            server if until_ended else None)
        if client.status == 0 or server.running():
            break
    return server, client


def run_at(lab, side, argv):
    if side == vm.GUEST:
        return lab.run_guest(shlex.join(argv), 60)
    return lab.run(OURS, argv, 60)
