#!/bin/bash
# The plugin as a file: what it needs, what it shows, and that it keeps away
# from a libibverbs whose private interface it does not know.
set -u
. "$PWD/verbs/preload/testing/expect.sh"
need readelf:binutils nm:binutils python3:python3

plugin=$(realpath verbs/provider/liburnic-rdmav34.so)

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
shown=$(nm -D --defined-only "$plugin" | wc -l)
expect "shows no symbols, not $shown" [ "$shown" = 0 ]

echo "== inside other releases of libibverbs"
# A plain python cannot load a sanitized library.
[[ $sanitized = yes ]] && finish
# load VERSION: the plugin's words when loaded beside that library.
load() {
  local dir=$TEST_TMPDIR/$1
  mkdir -p "$dir"
  ln -sf "$(realpath "verbs/provider/testing/fake_$1.so")" \
    "$dir/libibverbs.so.1"
  LD_LIBRARY_PATH=$dir python3 -c "import ctypes; ctypes.CDLL('$plugin')" 2>&1
}
out=$(load 1.14)
expect "joins 1.14: $out" [ "$out" = registered ]
for version in 1.13 1.15 1.16; do
  out=$(load $version)
  expect "keeps away from $version" lacks "$out" registered
  expect "names $version: $out" contains "$out" "offers IBVERBS_$version,"
  expect "names its own" contains "$out" "built for IBVERBS_1.14"
done

finish
