"""Makes one source file of the cores, and of what includes them, with one
line of the core changed: a mutant that the oracle must find.

usage: amalgamate.py core|engine|engine_and_core|iwarp OLD NEW FILE... ; OLD must
occur exactly once in what is inlined. The result goes to standard output.
"""

import re
import sys

CORES = ("transport/cc/", "transport/rc/", "transport/uc/", "transport/ud/",
         "transport/rud/", "transport/work/", "transport/net/",
         "transport/cm/", "tests/sim/", "tests/scripts/",
         "datapath/engine/burst_limit", "tests/support/cm_sink",
         "tests/support/endpoint", "tests/support/fragments",
         "tests/support/host_wire", "tests/support/rud_",
         "tests/support/unreliable_end", "tests/support/fake_")
# For each kind of mutant: the sources that may be broken, with what includes
# them; and others that must be inlined, too, because they include a source that
# is.
INLINED = {
    "core": (CORES, ()),
    "engine": (("datapath/engine/",), ()),
    "iwarp": (("transport/iwarp/", "tests/sim/iwarp_"),
              ("datapath/engine/input_tap", "datapath/engine/iwarp_input_tap")),
    "engine_and_core": (CORES + ("datapath/engine/",
                                 "datapath/memory/address_space"),
                        ("transport/iwarp/",)),
}
INCLUDE = re.compile(r'^#include "([^"]+)"[^\n]*\n', re.MULTILINE)


class Mutation:
    """Replaces `old`, and counts how often it stands there."""

    def __init__(self, old, new):
        self.old = old
        self.new = new
        self.places = 0

    def apply(self, text):
        self.places += text.count(self.old)
        return text.replace(self.old, self.new)


def expand(path, kind, mutation, seen):
    """The text of `path`, with the includes that belong to us inlined once."""
    if path in seen:
        return ""
    seen.add(path)
    broken, others = INLINED[kind]
    with open(path, encoding="utf-8") as source:
        text = source.read().replace("#pragma once\n", "")
    if not path.startswith(others):
        text = mutation.apply(text)

    def replace(match):
        name = match.group(1)
        if not name.startswith(broken + others):
            return match.group(0)
        return expand(name, kind, mutation, seen)

    return INCLUDE.sub(replace, text)


def main():
    kind, old, new, *files = sys.argv[1:]
    mutation = Mutation(old, new)
    seen = set()
    text = "".join(expand(path, kind, mutation, seen) for path in files)
    if mutation.places != 1:
        sys.exit(f"mutation: {mutation.places} places, expected one: {old}")
    sys.stdout.write(text)


main()
