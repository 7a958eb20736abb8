#!/bin/bash
# Runs raw_port's loops and checks that the output is JSON. It judges no rate.
set -eu
for mode in tx rx duplex echo; do
  bench/raw_port $mode net_ring0 seconds=0.1 wait=0.5 > "$TEST_TMPDIR/$mode"
  python3 -m json.tool "$TEST_TMPDIR/$mode" > /dev/null
done
# DPDK's own ring is a loopback: sent frames return.
bench/raw_port duplex net_ring0 seconds=0.1 through=port |
  grep -q '"rx_mpps":[0-9]*\.[0-9]*[1-9]'
bench/raw_port ping net_ring0 seconds=0.1 | grep -q '"p50":0\.[0-9]*[1-9]'
# A peer that ends first must not crash the other. (A race of microseconds: one
# round in six showed it.)
sockets=$(mktemp -d -t urnic-raw-XXXXXX)
trap 'rm -r "$sockets"' EXIT
for _ in 1 2 3 4 5 6; do
  memif="net_memif0,socket=$sockets/m,role"
  bench/raw_port rx "$memif=server" seconds=0.6 wait=30 > "$TEST_TMPDIR/rx" &
  bench/raw_port tx "$memif=client" seconds=0.2 wait=30 > "$TEST_TMPDIR/tx"
  wait $!
done
! bench/raw_port tx loop 2> /dev/null
! bench/raw_port fly net_ring0 2> /dev/null
! bench/raw_port tx net_ring0 size=9 2> /dev/null
