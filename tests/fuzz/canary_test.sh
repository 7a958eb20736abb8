#!/bin/sh
# The canary's replay must pass on a harmless input and fail on the other.
replay=$1
"$replay" tests/fuzz/corpus/canary/harmless || {
  echo "the canary failed on an input that shows nothing" >&2
  exit 1
}
if "$replay" tests/fuzz/corpus/canary/deadly; then
  echo "the canary lives: a bug would go unseen" >&2
  exit 1
fi
