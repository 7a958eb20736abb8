# Shell helpers for the preload's tests, to be sourced. They count failures, and
# `finish` exits with 1 if there are any.

failures=0

fail() {
  echo "FAIL: $*" >&2
  failures=$((failures + 1))
}

# expect WHAT COMMAND...: the command must succeed.
expect() {
  local what=$1
  shift
  "$@" || fail "$what"
}

# contains TEXT PATTERN: PATTERN (extended) occurs, also inside words.
contains() { grep -Eq -- "$2" <<<"$1"; }
lacks() { ! contains "$@"; }

need() {
  local program package
  for program in "$@"; do
    command -v "${program%%:*}" >/dev/null && continue
    package=${program#*:}
    echo "${program%%:*} is missing. Run: apt-get install $package" >&2
    exit 1
  done
}

finish() {
  [[ $failures == 0 ]] || echo "$failures failures" >&2
  exit $((failures != 0))
}
