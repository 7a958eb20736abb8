#!/usr/bin/env bash
# make_packages.sh FOLDER: Debian packages of what `./dev build` has left in
# out/. Two runs on the same build give identical packages: all times are those
# of the last commit.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
target=$(realpath -m "${1:?FOLDER}")

version=$(dpkg-parsechangelog -l packaging/debian/changelog -S Version)
built=$(out/bin/urnic --version)
if [[ $built != "urnic ${version%%[-~+]*}" ]]; then
  echo "make_packages: the changelog is of $version, and what is built says $built" >&2
  exit 1
fi
# In a source tree without history, the changelog's time is used.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null ||
  dpkg-parsechangelog -l packaging/debian/changelog -S Timestamp)}"
export SOURCE_DATE_EPOCH

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/urnic"
cp -r packaging/debian "$scratch/urnic/debian"
DESTDIR=$scratch/urnic/tree packaging/install.sh /usr
(cd "$scratch/urnic" && LC_ALL=C.UTF-8 debian/rules binary) >"$scratch/log" 2>&1 || {
  cat "$scratch/log" >&2
  exit 1
}
mkdir -p "$target"
rm -f "$target"/urnic*.deb
mv -v "$scratch"/urnic*.deb "$target/" | sed "s/.* -> /made /"
