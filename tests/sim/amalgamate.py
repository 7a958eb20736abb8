"""Makes one source file of the cores, and of what includes them, with one
line of the core changed: a mutant that the oracle must find.

usage: amalgamate.py core|engine|engine_and_core|iwarp OLD NEW FILE... ; OLD must
occur exactly once in what is inlined. The result goes to standard output.
"""

import re
import sys

CORES = ("transport/cc/", "transport/rc/", "transport/uc/", "transport/ud/",
         "transport/work/", "transport/net/", "transport/cm/", "tests/sim/",
         "tests/support/cm_sink", "tests/support/endpoint",
         "tests/support/fragments", "tests/support/host_wire",
         "tests/support/unreliable_end",
         "tests/support/fake_")
# What is inlined for each kind of mutant: the broken sources, and what includes
# them.
INLINED = {
    "core": CORES,
    "engine": ("datapath/engine/",),
    "iwarp": ("transport/iwarp/", "tests/sim/iwarp_"),
    "engine_and_core": CORES + ("datapath/engine/",
                                "datapath/memory/address_space"),
}
INCLUDE = re.compile(r'^#include "([^"]+)"[^\n]*\n', re.MULTILINE)


def expand(path, inlined, seen):
    """The text of `path`, with the includes that belong to us inlined once."""
    if path in seen:
        return ""
    seen.add(path)
    with open(path, encoding="utf-8") as source:
        text = source.read().replace("#pragma once\n", "")

    def replace(match):
        name = match.group(1)
        if not name.startswith(inlined):
            return match.group(0)
        return expand(name, inlined, seen)

    return INCLUDE.sub(replace, text)


def main():
    what, old, new, *files = sys.argv[1:]
    seen = set()
    text = "".join(expand(path, INLINED[what], seen) for path in files)
    if text.count(old) != 1:
        sys.exit("mutation: %d places, expected one: %s" %
                 (text.count(old), old))
    sys.stdout.write(text.replace(old, new))


main()
