#!/bin/bash
# Instructions per packet of each inner loop: the same on every machine, so a
# change shows where timings are too noisy. Counted by valgrind, as the
# difference between two numbers of iterations.
#
#   ./dev bench --instructions [FILTER]
set -euo pipefail

binary=$1
filter=${2:-.}
few=20
many=220

command -v valgrind >/dev/null || {
  echo "valgrind is missing. Run: apt-get install valgrind" >&2
  exit 1
}

# The instructions that a run of loop $1 with $2 iterations retires.
count() {
  local log
  log=$(mktemp)
  # Loops that need no DPDK run without its threads.
  local eal=(--no-eal)
  [[ $1 == engine/* ]] && eal=()
  valgrind --tool=callgrind --callgrind-out-file=/dev/null \
    --log-file="$log" "$binary" "${eal[@]}" --iterations="$2" \
    --benchmark_filter="^$1/iterations:$2\$" >/dev/null 2>&1
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$log"
  rm -f "$log"
}

printf '%-28s %s\n' loop instructions/packet
"$binary" --benchmark_list_tests --benchmark_filter="$filter" |
  while read -r loop; do
    case $loop in
      */icrc_latency/* | */list_of_1 | */idle_iteration) packets=1 ;;
      */half_trip) packets=2 ;;
      *) packets=32 ;;
    esac
    first=$(count "$loop" $few)
    second=$(count "$loop" $many)
    awk -v name="$loop" -v n=$(((many - few) * packets)) \
      -v d=$((second - first)) 'BEGIN { printf "%-28s %.1f\n", name, d / n }'
  done
