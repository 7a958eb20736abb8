"""Connects the queue pairs of rdma-core's own tests by rdma_cm.

The suite connects them by ibv_modify_qp, in one function that all of its tests
of RC traffic use. An iWARP device refuses that. Here this function is replaced;
what the tests do before and behind it stays as it is.
"""

from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam

# As librdmacm defines them. In which module pyverbs has them depends on its release.
RDMA_PS_TCP = 0x0106
RAI_PASSIVE = 1

READS = 16  # at a time, in each direction: more than any test asks for
FIRST_PORT = 20000


class Connector:
    """Both ends of a test call to_rts() one after the other, and know the
    numbers of the peer's queue pairs."""

    def __init__(self, address):
        self.address = address
        self.port = FIRST_PORT
        self.first = None  # the end that has called and waits for its peer

    def to_rts(self, end):
        first = self.first
        if first is None or list(first.rqps_num) != list(end.qps_num):
            self.first = end
            return
        self.first = None
        # Their connections last as long as the queue pairs.
        end.connected_by = [self.connect(*pair) for pair in zip(first.qps, end.qps)]

    def connect(self, active, passive):
        """Returns what must live as long as the connection."""
        self.port += 1
        port = str(self.port)
        listens, connects = CMEventChannel(), CMEventChannel()
        listener = CMID(creator=listens, port_space=RDMA_PS_TCP)
        listener.bind_addr(AddrInfo(src=self.address, src_service=port, port_space=RDMA_PS_TCP,
                                    flags=RAI_PASSIVE))
        listener.listen()
        client = CMID(creator=connects, port_space=RDMA_PS_TCP)
        client.resolve_addr(AddrInfo(src=self.address, dst=self.address, dst_service=port,
                                     port_space=RDMA_PS_TCP))
        await_event(connects, "ADDR_RESOLVED").ack_cm_event()
        client.resolve_route()
        await_event(connects, "ROUTE_RESOLVED").ack_cm_event()
        client.connect(parameters(active))
        request = await_event(listens, "CONNECT_REQUEST")
        server = CMID(creator=request, listen_id=listener)
        server.accept(parameters(passive))
        request.ack_cm_event()
        await_event(connects, "ESTABLISHED").ack_cm_event()
        await_event(listens, "ESTABLISHED").ack_cm_event()
        listener.close()
        return client, server, connects, listens


def parameters(queue_pair):
    return ConnParam(resources=READS, depth=READS, qp_num=queue_pair.qp_num)


def await_event(channel, name):
    event = CMEvent(channel)
    if event.event_str() != f"RDMA_CM_EVENT_{name}":
        raise RuntimeError(f"rdma_cm: {event.event_str()} instead of {name}")
    return event


def replace_to_rts(base, address):
    """`base`: the suite's module of that name. `address`: the device's own."""
    connector = Connector(address)
    # A function, so that it is called with the instance.
    base.RCResources.to_rts = lambda end: connector.to_rts(end)
