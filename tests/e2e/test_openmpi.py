"""Open MPI, the distribution's, unmodified: two ranks with a port each, which
find each other by PMIx and talk through the RNICs alone: by UCX on RoCE, and by
libfabric on iWARP, which UCX leaves out."""

import pathlib

import bed
import beds
import suite

# The distribution's Python, which has mpi4py.
PYTHON = "/usr/bin/python3"
PROGRAM = str(pathlib.Path(__file__).with_name("mpi_exchange.py"))


UCX = ["--mca", "pml", "ucx", "--mca", "osc", "ucx"]
# With the one-sided operations of Open MPI itself, which refuse a program that
# asks for MPI_THREAD_MULTIPLE, as mpi4py does by default (MPI4PY_RC_THREADS).
LIBFABRIC = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca",
             "mtl_ofi_provider_include", "verbs;ofi_rxm", "--mca", "osc",
             "pt2pt"]


def run_ranks(context, place, options=UCX, threads="1"):
    environment = {
        "MPI4PY_RC_THREADS": threads,
        "UCX_TLS": "rc_verbs,ud_verbs,self",
        "UCX_NET_DEVICES": "urnic0:1",
        "UCX_IB_GID_INDEX": str(place.gid_v4),
    }
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe",
               "--bind-to", "none", "--mca", "plm", "isolated", *options]
    for side in (0, 1):
        command += [":"] if side == 1 else []
        command += ["-np", "1", context.tools.urnic, "run",
                    *place.run_options(side), "--", PYTHON, PROGRAM]
    result = place.run(0, command, seconds=120, rnic=False,
                       env={**environment, "TMPDIR": place.directory})
    context.check_ok(result)
    for rank in (0, 1):
        context.check(f"rank {rank} of 2: all is well" in result.out, result)


@suite.test("vhost/openmpi")
def over_vhost(context):
    context.need("mpirun")
    with bed.SocketBed(context.tools, "vhost") as place:
        run_ranks(context, place)


@suite.test("onehost/openmpi")
def on_one_host(context):
    """Neighbouring process ids on neighbouring interfaces: what once gave both
    packet sockets one fanout group, so that a rank lost its device."""
    context.need("mpirun")
    with bed.OneHostBed(context.tools) as place:
        run_ranks(context, place)


@suite.test("iwarp-vhost/openmpi")
def over_iwarp(context):
    context.need("mpirun")
    with beds.make(context.tools, "iwarp-vhost") as place:
        place.share_addresses()
        run_ranks(context, place, LIBFABRIC, threads="0")
