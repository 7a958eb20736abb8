#!/usr/bin/env bash
# install.sh PREFIX: copies what `./dev build` has left in out/ into PREFIX, or
# into $DESTDIR$PREFIX for a packager. Needs only coreutils, so that root does
# not have to build: ./dev build && sudo packaging/install.sh /usr/local
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
umask 022

prefix=${1:-}
prefix=${prefix%/}
if [[ $# != 1 || $prefix != /* ]]; then
  echo "install: PREFIX must be an absolute path, as in: ./dev install /usr/local" >&2
  exit 2
fi
if [[ $prefix == *[[:blank:]:\;]* ]]; then
  echo "install: $prefix: LD_PRELOAD and IBV_DRIVERS cannot hold a path with a blank, ':' or ';'" >&2
  exit 2
fi
if [[ ! -x out/bin/urnic ]]; then
  echo "install: nothing is built: ./dev build" >&2
  exit 1
fi
root=${DESTDIR:-}$prefix
version=$(sed -n 's/^#define URNIC_FW_VERSION "\(.*\)"/\1/p' \
  verbs/identity/device_identity.h)

# copy MODE FOLDER FILE...: does nothing if there are no files.
copy() {
  local mode=$1 folder=$2
  shift 2
  (($#)) || return 0
  install -d -m 755 "$root/$folder"
  install -m "$mode" "$@" "$root/$folder/"
}
shopt -s nullglob

# The tree of out/ unchanged in a separate folder: the command finds ../lib from
# its real path, and no linker or ldconfig finds our objects.
rm -f "$root"/lib/urnic/lib/liburnic-*.so
copy 755 lib/urnic/bin out/bin/urnic out/bin/urnic-perf
install -d -m 755 "$root/lib/urnic/lib"
cp --no-dereference --no-preserve=mode out/lib/*.so "$root/lib/urnic/lib/"
copy 644 lib/urnic/lib out/lib/*-gdb.py
# Where gdb of a system trusts scripts, by the path of what they belong to.
copy 644 "share/gdb/auto-load$prefix/lib/urnic/lib" out/lib/*-gdb.py
copy 644 share/urnic/wireshark ras/wireshark/urnic_rud.lua
install -d -m 755 "$root/bin"
ln -sfn ../lib/urnic/bin/urnic "$root/bin/urnic"
ln -sfn ../lib/urnic/bin/urnic-perf "$root/bin/urnic-perf"

for page in docs/man/*.[1-8]; do
  copy 644 "share/man/man${page##*.}" "$page"
done
install -d -m 755 "$root/share/bash-completion/completions"
install -m 644 docs/completion/urnic.bash \
  "$root/share/bash-completion/completions/urnic"
copy 644 share/zsh/site-functions docs/completion/_*

# What programs link: static, so that no linker finds a shared object of ours.
copy 644 include out/include/urnic_regcache.h
copy 644 include/urnic out/include/urnic/*.h
copy 644 lib out/lib/*.a

# At their paths in the repository, so that their links work.
copy 644 share/doc/urnic README.md ARCHITECTURE.md STYLE.md LICENSE
copy 644 share/doc/urnic/bench bench/README.md bench/BUDGET.md
copy 644 share/doc/urnic/bench/pictures bench/pictures/README.md \
  bench/pictures/*.svg bench/pictures/run.json
copy 644 share/doc/urnic/docs docs/*.md docs/*.svg
copy 644 share/doc/urnic/docs/design docs/design/*.md
for library in regcache direct; do
  copy 644 "share/doc/urnic/verbs/$library" "verbs/$library/README.md" \
    "verbs/$library/example.c"
done
copy 644 share/doc/urnic/verbs/direct verbs/direct/example_end.h \
  verbs/direct/allreduce_types.h \
  verbs/direct/{allreduce,block_service,distribute,write_set}.c
copy 644 share/doc/urnic/packaging packaging/README.md packaging/Containerfile

install -d -m 755 "$root/share/pkgconfig"
for name in urnic urnic-regcache urnic-dv; do
  sed -e "s|@prefix@|$prefix|" -e "s|@version@|$version|" \
    "packaging/$name.pc.in" >"$root/share/pkgconfig/$name.pc"
  chmod 644 "$root/share/pkgconfig/$name.pc"
done
