#!/bin/bash
# The plugin as a file: what it needs, what it exports, and that it does not
# register with a libibverbs whose private interface it does not know.
set -u
. "$PWD/verbs/preload/testing/expect.sh"
need readelf:binutils nm:binutils python3:python3 ibv_asyncwatch:ibverbs-utils

plugin=$(realpath verbs/provider/liburnic-rdmav34.so)
preload=$(realpath verbs/preload/liburnic-preload.so)

echo "== the file"
dynamic=$(readelf -dW "$plugin")
needed=$(sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' <<<"$dynamic" | sort | tr '\n' ' ')
# numa and bsd are DPDK's.
expected="ld-linux-x86-64.so.2 libbsd.so.0 libc.so.6 libibverbs.so.1 \
libisal.so.2 libm.so.6 libnuma.so.1 "
sanitized=no
contains "$needed" 'lib[atu]+b?san' && sanitized=yes
if [[ $sanitized = no ]]; then
  expect "needs no other libraries: $needed" [ "$needed" = "$expected" ]
  expect "no static TLS, which dlopen() has little of" \
    lacks "$dynamic" STATIC_TLS
fi
expect "stays loaded" contains "$dynamic" NODELETE
expect "asks no libibverbs for private symbols of one version" \
  lacks "$(readelf -VW "$plugin")" IBVERBS_PRIVATE
shown=$(nm -D --defined-only "$plugin" | sed 's/.* //')
expect "shows nothing else: $shown" \
  [ "$shown" = $'urnic_dv_table_v1\nurnic_ep_table_v1\nurnic_provider_entry_v1' ]

echo "== own calls reach libc, whatever else is preloaded"
need ls:coreutils comm:coreutils
rspreload=$(ls /usr/lib/*/rsocket/librspreload.so.1 2>/dev/null | head -1)
expect "librspreload is there: apt-get install librdmacm1" [ -n "$rspreload" ]
# names FILE: the symbols that the loader resolves for it.
names() { readelf -rW "$1" | awk '$5 { print $5 }' | sed 's/@.*//' | sort -u; }
# The calls that go directly to libc, and all functions that these libraries
# replace.
taken=$({
  nm "$preload" | sed -n 's/.* __wrap_//p'
  nm -D --defined-only "$preload" "$rspreload" | sed -n 's/@.*//; s/.* [A-Z] //p'
} | sort -u)
expect "there are such calls" [ "$(wc -l <<<"$taken")" -gt 100 ]
for library in "$plugin" "$preload"; do
  leaks=$(comm -12 <(names "$library") <(echo "$taken") | tr '\n' ' ')
  expect "${library##*/} calls what others may take: $leaks" [ -z "$leaks" ]
done

echo "== no verb is a cancellation point"
points='accept4?|close|connect|epoll_p?wait2?|eventfd_(read|write)|fallocate.*'
points+='|f(data)?sync|msync|(clock_)?nanosleep|open(at)?(64)?|creat|pause|p?poll'
points+='|p(read|write)v?(64)?|p?select|pthread_join|readv?|recv(from|m?msg)?'
points+='|send(m?msg|to)?|sigtimedwait|sigwait(info)?|u?sleep|system|wait(id|pid)?'
points+='|writev?|__(poll|ppoll|read|pread|pread64|recv|recvfrom|open.*)_chk|__open.*'
# at NAME: the address of a symbol of the plugin.
at() { sed -n "s/^\([0-9a-f]*\) . $1\$/\1/p" <<<"$symbols"; }
symbols=$(nm "$plugin")
for name in $(names "$plugin" | grep -xE "$points"); do
  expect "calls $name by way of no_cancellation.cc" [ -n "$(at "__wrap_$name")" ]
done
for name in $(sed -n 's/.* urnic_libc_//p' <<<"$symbols" | grep -xE "$points")
do
  expect "calls $name by way of no_cancellation.cc" \
    [ "$(at "__wrap_$name")" != "$(at "urnic_libc_$name")" ]
done

echo "== standard output is the program's"
out=$(names "$plugin" | grep -xE '__v?printf_chk|v?printf|puts|putchar' | tr '\n' ' ')
expect "prints by $out" [ -z "$out" ]

echo "== inside other releases of libibverbs"
# Programs that are not sanitized cannot load a library that is.
[[ $sanitized = yes ]] && finish
# load PRIVATE_MINOR: the plugin's output when it is loaded with that library.
load() {
  local dir=$TEST_TMPDIR/$1
  mkdir -p "$dir"
  ln -sf "$(realpath "verbs/provider/testing/fake_$1.so")" \
    "$dir/libibverbs.so.1"
  LD_LIBRARY_PATH=$dir python3 -c "import ctypes; ctypes.CDLL('$plugin')" 2>&1
}
for known in 34_14 57_14 59_15 59_16 64_17 65_18; do
  out=$(load $known)
  expect "joins $known: $out" [ "$out" = "registered ${known%_*}" ]
done
for other in 34_13 34_15 57_15 59_17 65_19 66_18; do
  out=$(load $other)
  expect "keeps away from $other" lacks "$out" registered
  expect "names its numbers: $out" contains "$out" \
    "IBVERBS_1.${other#*_} and the private interface ${other%_*}, "
done

echo "== words for people"
# as PORTS COMMAND...: becomes a verbs program on these ports; for subshells.
as() {
  local ports=$1
  shift
  exec env URNIC_PORTS="$ports" IBV_DRIVERS="${plugin%-rdmav34.so}" \
    XDG_RUNTIME_DIR="$TEST_TMPDIR" LD_PRELOAD="$preload" "$@"
}
out=$(export URNIC_DEBUG=-; as 'loop|10.9.0.1/24' ibv_rc_pingpong -g 3 -d urnic0 -r 20000 2>&1)
expect "says what is too much: $out" contains "$out" \
  'urnic: URN2001: create_qp: max_recv_wr 20000 is out of range: 0 to 16384'

echo "== a port belongs to one process"
as 'net_null0|10.9.0.1/24' ibv_asyncwatch -d urnic0 >"$TEST_TMPDIR/watch" 2>&1 &
holder=$!
for ((i = 0; i < 600; ++i)); do
  grep -q 'event FD' "$TEST_TMPDIR/watch" && break
  sleep 0.1
done
out=$(as 'net_null0|10.9.0.1/24' ibv_devices)
expect "listing needs no port: $out" contains "$out" urnic0
out=$(as 'net_null0|10.9.0.1/24' ibv_devinfo 2>&1)
expect "names the holder, $holder: $out" contains "$out" "pid $holder\b"
kill "$holder"
wait "$holder" 2>/dev/null
out=$(as 'net_null0|10.9.0.1/24' ibv_devinfo 2>&1)
expect "is free again: $out" contains "$out" PORT_ACTIVE

finish
