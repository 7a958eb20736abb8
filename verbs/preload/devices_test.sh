#!/bin/bash
# The distribution's programs see our devices through the preload, and leave
# nothing behind.
set -u
here=$PWD/verbs/preload
. "$here/testing/expect.sh"
need ibv_devinfo:ibverbs-utils readelf:binutils python3:python3

library=$(realpath "$here/liburnic-preload.so")
drivers=$(dirname "$(realpath "$here/testing/liburnic-rdmav34.so")")
export IBV_DRIVERS=$drivers/liburnic
export XDG_RUNTIME_DIR=$TEST_TMPDIR/run
mkdir -p "$XDG_RUNTIME_DIR"
two_ports='loop|10.0.0.1/24|fd00::1/64;iface:lo|10.0.0.2/24'

# with PORTS COMMAND...: runs it with the preload.
with() {
  local ports=$1
  shift
  env URNIC_PORTS="$ports" LD_PRELOAD="$library" "$@"
}
nothing_left() { [[ -z $(ls -A "$XDG_RUNTIME_DIR") ]]; }

echo "== the library itself"
dynamic=$(readelf -d "$library")
needed=$(grep NEEDED <<<"$dynamic" | sed 's/.*\[\(.*\)\]/\1/' | tr '\n' ' ')
expect "needs libc only, not: $needed" [ "$needed" = "libc.so.6 " ]
# The one entry is the compiler's frame_dummy, which every shared object has.
expect "has no constructor" contains "$dynamic" 'INIT_ARRAYSZ\) +8 '
expect "has no destructor" contains "$dynamic" 'FINI_ARRAYSZ\) +8 '

echo "== libibverbs"
out=$(with "$two_ports" ibv_devices)
expect "lists urnic0" contains "$out" 'urnic0 +.[0-9a-f]{16}'
expect "lists urnic1" contains "$out" 'urnic1 +.[0-9a-f]{16}'
out=$(with "$two_ports" ibv_devinfo -l)
expect "ibv_devinfo -l: $out" contains "$out" '2 HCAs'
out=$(with "$two_ports" ibv_devinfo -v -d urnic0)
expect "port is active" contains "$out" 'PORT_ACTIVE'
expect "first IPv4 at 3" contains "$out" 'GID\[ +3\]:.*::ffff:10.0.0.1, RoCE v2'
expect "IPv6 at 5" contains "$out" 'GID\[ +5\]:.*fd00::1, RoCE v2'
expect "link-local at 1" contains "$out" 'GID\[ +1\]:.*fe80::.*, RoCE v2'
expect "RoCE v1 at 0" contains "$out" 'GID\[ +0\]:.*fe80:.*, (IB/)?RoCE v1'
expect "RoCE v1 at 2" contains "$out" 'GID\[ +2\]:.*0a00:0001, (IB/)?RoCE v1'
expect "nothing at 6" lacks "$out" 'GID\[ +6\]'
expect "nothing is left" nothing_left

echo "== files, as programs read them"
out=$(with "$two_ports" python3 - <<'PY'
import errno, os
base = "/sys/class/infiniband/urnic1"
assert sorted(os.listdir("/sys/class/infiniband")) == ["urnic0", "urnic1"]
assert os.listdir(base + "/device/net") == ["lo"]
assert os.path.exists(base + "/device/net/lo/mtu")
assert open(base + "/ports/1/link_layer").read() == "Ethernet\n"
assert open(base + "/ports/1/gid_attrs/types/3").read() == "RoCE v2\n"
assert open(base + "/ports/1/gid_attrs/ndevs/3").read() == "lo\n"
assert len(os.listdir(base + "/ports/1/gids")) == 34
try:
    open(base + "/ports/1/gid_attrs/types/6").read()
    assert False, "an empty index must not have a type"
except OSError as e:
    assert e.errno == errno.EINVAL, e
os.chdir("/sys/class/infiniband_verbs")
assert open("uverbs1/ibdev").read() == "urnic1\n"
d = os.open("/sys/class", os.O_PATH)
assert os.readlink("infiniband_verbs/uverbs0/device", dir_fd=d)
assert not os.path.exists("/sys/class/infiniband/urnic2")
assert os.access("/dev/infiniband/uverbs0", os.R_OK | os.W_OK)
assert os.listdir("/dev/infiniband") and os.stat("/dev/infiniband/uverbs1")
print("fine")
PY
)
expect "files: $out" [ "$out" = fine ]
expect "nothing is left" nothing_left

echo "== children, exec, sudden death"
with "$two_ports" bash -c 'shopt -s execfail
  [[ -e /sys/class/infiniband/urnic0 ]]; exec /nonexistent; exit 3' 2>/dev/null
expect "exit status after a failed exec" [ $? = 3 ]
expect "nothing is left after a failed exec" nothing_left
out=$(with "$two_ports" bash -c '[[ -e /sys/class/infiniband/urnic0 ]]
  exec ibv_devices')
expect "devices after an exec" contains "$out" urnic1
expect "nothing is left after an exec" nothing_left
# The parent and its directory are gone when the child looks.
out=$(with "$two_ports" python3 -c '
import os, sys, time
os.listdir("/sys/class/infiniband")
r, w = os.pipe()
if os.fork():
    sys.exit(0)
os.close(w)
while os.getppid() != 1 and not os.read(r, 1) == b"":
    pass
os.stat("/dev/null")
print(os.listdir("/sys/class/infiniband"))' | cat)
expect "a child outlives its parent: $out" contains "$out" urnic1
expect "nothing is left of parent and child" nothing_left
with "$two_ports" bash -c '[[ -e /sys/class/infiniband ]]; kill -9 $$' \
  2>/dev/null
expect "a killed program leaves its directory" \
  [ -n "$(ls "$XDG_RUNTIME_DIR")" ]
with "$two_ports" ibv_devices >/dev/null
expect "the next one sweeps it" nothing_left
# The start time is 0 if /proc could not be read.
own=$(stat -L -c %i /proc/self/ns/pid)
true &
gone=$!
wait
mkdir "$XDG_RUNTIME_DIR/urnic-$own-$gone-0" "$XDG_RUNTIME_DIR/urnic-$own-$$-0"
# Directories that DPDK created in earlier releases.
mkdir -p "$XDG_RUNTIME_DIR"/dpdk/{urnic$gone,urnic$$,rte}
with "$two_ports" ibv_devices >/dev/null
expect "start time 0 does not live forever" \
  [ ! -d "$XDG_RUNTIME_DIR/urnic-$own-$gone-0" ]
expect "but as long as its process" [ -d "$XDG_RUNTIME_DIR/urnic-$own-$$-0" ]
expect "DPDK's are swept: $(ls "$XDG_RUNTIME_DIR/dpdk")" \
  [ "$(ls "$XDG_RUNTIME_DIR/dpdk" | tr '\n' ' ')" = "rte urnic$$ " ]
rm -rf "${XDG_RUNTIME_DIR:?}"/*
# A process of another pid namespace looks dead from here; it may not be.
other="$XDG_RUNTIME_DIR/urnic-$(stat -L -c %i /proc/self/ns/pid)9-2-3"
mkdir "$other" "$XDG_RUNTIME_DIR/urnic-notes"
with "$two_ports" ibv_devices >/dev/null
expect "other names are left alone" [ -d "$XDG_RUNTIME_DIR/urnic-notes" ]
if [[ $(stat -L -c %i /proc/self/ns/pid) = 4026531836 && $(id -u) = 0 ]]; then
  expect "a namespace that root cannot find is gone" [ ! -d "$other" ]
else
  expect "another namespace is left alone" [ -d "$other" ]
fi
rm -rf "${XDG_RUNTIME_DIR:?}"/*

echo "== a libibverbs that would not load our provider"
newer=$(realpath verbs/libc/libnewer_verbs.so)
err=$(with "$two_ports" python3 -c '
import ctypes, os, sys
ctypes.CDLL(sys.argv[1])
for path in ("/sys/class/infiniband_verbs", "/dev/infiniband/uverbs0"):
    assert not os.path.exists(path), path' "$newer" 2>&1)
expect "has no devices: $err" lacks "$err" Assertion
expect "is told why, once: $err" \
  [ "$(grep -c 'urnic: .*private interface 99, .*stay hidden' <<<"$err")" = 1 ]
expect "nothing is left" nothing_left

echo "== mistakes"
err=$(with 'veth0|10.0.0.1/24' ibv_devices 2>&1 >/dev/null)
expect "names the entry: $err" \
  contains "$err" 'urnic: URNIC_PORTS: port 1 .*veth0'
expect "says it once" [ "$(grep -c URNIC_PORTS <<<"$err")" = 1 ]
plain=$(ibv_devices 2>&1)
expect "transparent without URNIC_PORTS" \
  [ "$(LD_PRELOAD=$library ibv_devices 2>&1)" = "$plain" ]
err=$(XDG_RUNTIME_DIR=/proc/self with loop ibv_devices 2>&1)
expect "falls back to /tmp: $err" contains "$err" urnic0

finish
