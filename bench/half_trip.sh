#!/bin/bash
# Instructions of half a trip of ib_send_lat, both ends in one process
# (half_trip.cc), over two ports that see each other:
#
#   ./dev build && bazel build //bench:half_trip
#   bench/half_trip.sh [ring|vhost]
#
# ring: a ring of this process, the lowest cost that a driver can have. vhost:
# the first device is a virtio_user, the second a vhost, which copies.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
case ${1:-ring} in
  ring) ports=(ring:trip:a ring:trip:b) ;;
  vhost)
    ports=("net_virtio_user0,server=1,path=$directory/s,queue_size=1024"
      "net_vhost0,client=1,iface=$directory/s")
    ;;
  *) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
out/bin/urnic run --port "${ports[0]}|10.9.0.1/24" \
  --port "${ports[1]}|10.9.0.2/24" -- bazel-bin/bench/half_trip
