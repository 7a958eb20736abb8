#!/usr/bin/env python3
"""End-to-end tests: unmodified programs of the distribution on our RNIC.

Prints a line for each test and ends with "N passed, N failed, N skipped".
Needs root for network namespaces; without it those tests fail to make their
bed, so run it through `./dev test`, which says so.
"""

import sys

import bed
import clean_up
import suite
# Each module adds its tests to suite.TESTS.
import test_addresses  # pylint: disable=unused-import
import test_bad_packets  # pylint: disable=unused-import
import test_capture  # pylint: disable=unused-import
import test_recorder  # pylint: disable=unused-import
import test_recovery  # pylint: disable=unused-import
import test_claims  # pylint: disable=unused-import
import test_clean  # pylint: disable=unused-import
import test_gdb  # pylint: disable=unused-import
import test_snapshot  # pylint: disable=unused-import
import test_connection_cost  # pylint: disable=unused-import
import test_cost  # pylint: disable=unused-import
import test_counters  # pylint: disable=unused-import
import test_demo  # pylint: disable=unused-import
import test_devices  # pylint: disable=unused-import
import test_faults  # pylint: disable=unused-import
import test_fio  # pylint: disable=unused-import
import test_guard  # pylint: disable=unused-import
import test_haproxy  # pylint: disable=unused-import
import test_inputs  # pylint: disable=unused-import
import test_impaired  # pylint: disable=unused-import
import test_interrupt  # pylint: disable=unused-import
import test_iser  # pylint: disable=unused-import
import test_iwarp_device  # pylint: disable=unused-import
import test_iwarp_options  # pylint: disable=unused-import
import test_iwarp_tcp  # pylint: disable=unused-import
import test_judges  # pylint: disable=unused-import
import test_libfabric  # pylint: disable=unused-import
import test_newer_verbs  # pylint: disable=unused-import
import test_openmpi  # pylint: disable=unused-import
import test_partitions  # pylint: disable=unused-import
import test_perftest  # pylint: disable=unused-import
import test_qperf  # pylint: disable=unused-import
import test_rdmacm  # pylint: disable=unused-import
import test_regcache  # pylint: disable=unused-import
import test_routes  # pylint: disable=unused-import
import test_rsockets  # pylint: disable=unused-import
import test_rud  # pylint: disable=unused-import
import test_show  # pylint: disable=unused-import
import test_trace  # pylint: disable=unused-import
import test_ucx  # pylint: disable=unused-import
import test_vanish  # pylint: disable=unused-import
import test_vlan  # pylint: disable=unused-import
import test_wire  # pylint: disable=unused-import


def main():
    tests, tools, jobs = suite.from_command_line(__doc__, "tests/e2e",
                                                 bed.Tools)
    clean_up.sweep()
    return suite.run(tests, tools, jobs)


if __name__ == "__main__":
    sys.exit(main())
