#!/bin/bash
# Programs that touch no RDMA path behave exactly as without the preload: no
# file, thread or socket of ours. Their system calls are compared.
set -u
here=$PWD/verbs/preload
. "$here/testing/expect.sh"
need strace:strace python3:python3 taskset:util-linux

library=$(realpath "$here/liburnic-preload.so")
export XDG_RUNTIME_DIR=$TEST_TMPDIR/run
mkdir -p "$XDG_RUNTIME_DIR"
calls=%file,%network,clone,clone3,fork,vfork,eventfd2,pipe,pipe2,epoll_create1

# Removes what differs from run to run: addresses, pids, the environment's size,
# and the loading of the library.
normalize() {
  cat "$1".* | grep -v 'liburnic-preload' |
    sed -E 's/0x[0-9a-f]+/ADDR/g; s/[0-9]{3,}/N/g; s/[0-9]+ vars/N vars/;
      s/^(v?fork|clone3?)\(.*= [0-9]+$/\1 = PID/' |
    grep -vE '^(newfstatat|fstat)\([0-9]+, |^\+\+\+|^---' | sort
}

# traced NAME STRACE-OPTIONS... : one file of system calls for each process.
traced() {
  local name=$1
  shift
  rm -f "$TEST_TMPDIR/$name".*
  strace -ff -qq -e trace="$calls" -o "$TEST_TMPDIR/$name" "$@" >/dev/null
}

check() {
  local name=$1
  shift
  traced plain "$@" || fail "$name: does not run under strace"
  traced preloaded -E LD_PRELOAD="$library" -E URNIC_PORTS='loop|10.0.0.1/24' \
    "$@" || fail "$name: does not run with the preload"
  expect "$name: the preload was not loaded" \
    grep -q liburnic-preload "$TEST_TMPDIR"/preloaded.*
  diff <(normalize "$TEST_TMPDIR/plain") \
    <(normalize "$TEST_TMPDIR/preloaded") ||
    fail "$name: does something else with the preload"
}

check bash bash -c 'echo $((1 + 1)); true | cat; [[ -e /etc/passwd ]]'
check taskset taskset -c 0 true
check timeout timeout 5 true
check env env A=1 true
check python3 python3 -S -B -c 'import os, subprocess, threading
subprocess.run(["true"]); os.listdir("/")'
expect "no directory was made" [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]

finish
