#!/usr/bin/env python3
"""The gate of figures.py is shown figures that it must refuse and take."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

import figures  # noqa: E402 (the path must come first)

TABLE = """One queue pair, 1 MB messages.

RDMA write
  loss      window 8           window 32
 0.00 %    98.0 /  0.0 /  0   97.8 /  0.0 /  0
 1.00 %    89.8 /  6.6 /  0   82.4 / 15.6 /  0

RDMA write, no loss but what overflows
  window 32           window 64
   97.8 /  0.0 /  0   97.5 /  0.0 /  0
"""


class FiguresTest(unittest.TestCase):

    def test_two_percent_pass_and_more_fails(self):
        before = {"instructions, a": 500.0, "goodput %, b": 80.0}

        def refused(**now):
            return figures.worse(before, {
                "instructions, a": now.get("a", 500.0),
                "goodput %, b": now.get("b", 80.0)})

        self.assertEqual(refused(), [])
        self.assertEqual(refused(a=510.0, b=78.4), [])
        self.assertEqual(refused(a=300.0, b=99.0), [])
        self.assertEqual(len(refused(a=510.1)), 1)
        self.assertEqual(len(refused(b=78.3)), 1)
        # This regression from 499 to 530 once went unnoticed.
        self.assertEqual(len(figures.worse({"instructions, a": 499.0},
                                           {"instructions, a": 530.0})), 1)

    def test_the_build_has_five_percent(self):
        before = {"build, parsed own lines": 1000.0}
        self.assertEqual(
            figures.worse(before, {"build, parsed own lines": 1050.0}), [])
        self.assertEqual(len(
            figures.worse(before, {"build, parsed own lines": 1051.0})), 1)

    def test_each_compilation_parses_a_header_once(self):
        one, two = "transport/base/time.h", "transport/base/psn.h"
        texts = {one: "// 1\n// 2\n", two: f'#include "{one}"\n',
                 "a.cc": f'#include "{one}"\n#include "{two}"\n#include <map>\n',
                 "b.cc": f'#include "another/{one}"\n'}
        self.assertEqual(figures.build_cost.parsed_lines(texts), (2, 7))

    def test_what_seems_worse_is_counted_again(self):
        asked = []

        def count_again(names):
            asked.append(list(names))
            high = 130.0 if len(asked) < 3 else 101.0
            return {name: high if name == figures.LOOPS[0] else 100.0
                    for name in names}

        before = {f"instructions, {name}": 100.0 for name in figures.LOOPS}
        counted = figures.fewest(count_again, before)
        self.assertEqual(counted[figures.LOOPS[0]], 101.0)
        self.assertEqual(counted[figures.LOOPS[1]], 100.0)
        self.assertEqual(asked, [list(figures.LOOPS), [figures.LOOPS[0]],
                                 [figures.LOOPS[0]]])
        # What is worse stays so, however often it is counted.
        worse = figures.fewest(
            lambda names: {name: 150.0 for name in names}, before)
        self.assertEqual(set(worse.values()), {150.0})

    def test_a_figure_that_is_gone_fails_and_a_new_one_does_not(self):
        self.assertEqual(len(figures.worse({"bytes, a": 1.0}, {})), 1)
        self.assertEqual(figures.worse({}, {"bytes, a": 1.0}), [])

    def test_a_line_names_what_it_makes_worse(self):
        before, now = {"bytes, a": 100.0}, {"bytes, a": 103.0}
        self.assertEqual(figures.unfit_to_append(before, now, "bytes, a: x"),
                         [])
        self.assertEqual(len(figures.unfit_to_append(before, now, "x")), 1)

    def test_no_line_exceeds_a_ceiling(self):
        name, ceiling = next(iter(figures.CEILINGS.items()))
        self.assertEqual(figures.unfit_to_append({}, {name: ceiling}, ""), [])
        self.assertEqual(
            len(figures.unfit_to_append({}, {name: ceiling + 0.1}, "")), 1)
        # Also if the history was edited by hand.
        self.assertEqual(
            figures.unfit_to_append({}, figures.last_line(), ""), [])

    def test_goodput_of_the_table(self):
        self.assertEqual(figures.goodput_of(TABLE), {
            "goodput %, RDMA write, 0.00 %, window 8": 98.0,
            "goodput %, RDMA write, 0.00 %, window 32": 97.8,
            "goodput %, RDMA write, 1.00 %, window 8": 89.8,
            "goodput %, RDMA write, 1.00 %, window 32": 82.4,
            "goodput %, RDMA write, no loss but what overflows, window 32":
                97.8,
            "goodput %, RDMA write, no loss but what overflows, window 64":
                97.5})

    def test_loops_of_the_listing(self):
        text = "loop      instructions/packet\nwire/parse    135.0\nx/y 2\n"
        self.assertEqual(figures.pairs_of(text),
                         {"wire/parse": 135.0, "x/y": 2.0})


unittest.main()
