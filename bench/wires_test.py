#!/usr/bin/env python3
"""What wires.py makes of the bytes that arrive at hosts."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import wires  # noqa: E402 (the path must come first)

RATE = wires.LINK_GBPS * 1e9 / 8 / wires.SENDERS


def sampled(*totals, seconds=6):
    """As of arrivals(): `totals` are each host's bytes, functions of time."""
    times = [number * wires.SAMPLE_SECONDS
             for number in range(int(seconds / wires.SAMPLE_SECONDS))]
    return [(at, [int(total(at)) for total in totals]) for at in times]


def steady(begin, end, rate=RATE):
    return lambda at: rate * (min(max(at, begin), end) - begin)


class ArrivalsTest(unittest.TestCase):

    def test_equal_hosts_share_the_link_for_as_long_as_they_send(self):
        seconds, jain, starved = wires.judge_arrivals(
            sampled(*[steady(1, 5)] * wires.SENDERS))
        self.assertAlmostEqual(seconds, 4, delta=2 * wires.SAMPLE_SECONDS)
        self.assertAlmostEqual(jain, 1)
        self.assertEqual(starved, 0)

    def test_a_host_with_nothing_for_two_seconds_is_starved_twice(self):
        before, behind = steady(1, 2), steady(4.1, 5)
        hosts = [steady(1, 5)] * (wires.SENDERS - 1)
        _, jain, starved = wires.judge_arrivals(
            sampled(*hosts, lambda at: before(at) + behind(at)))
        self.assertEqual(starved, 2)
        self.assertLess(jain, 0.95)

    def test_one_host_with_a_third_of_the_others_rate(self):
        hosts = [steady(0, 5)] * (wires.SENDERS - 1)
        _, jain, _ = wires.judge_arrivals(
            sampled(*hosts, steady(0, 5, RATE / 3)))
        self.assertAlmostEqual(jain, 100 / 112, places=3)

    def test_hosts_that_send_in_turn_do_not_share(self):
        _, jain, starved = wires.judge_arrivals(sampled(
            *[steady(number, number + 1) for number in range(wires.SENDERS)]))
        self.assertEqual(jain, 1 / wires.SENDERS)
        self.assertEqual(starved, 0)

    def test_the_exchange_before_and_behind_the_data_does_not_count(self):
        few = lambda at: 1000 * (at > 0.5) + 1000 * (at > 5.5)
        data = steady(1, 5)
        seconds, _, starved = wires.judge_arrivals(
            sampled(*[lambda at: few(at) + data(at)] * wires.SENDERS))
        self.assertAlmostEqual(seconds, 4, delta=2 * wires.SAMPLE_SECONDS)
        self.assertEqual(starved, 0)


class WiresTest(unittest.TestCase):

    def test_every_wire_has_a_clean_one_beside_it(self):
        names = wires.wires()
        for delay in wires.DELAYS_MS:
            self.assertIn(wires.name_of("0", delay), names)
        self.assertEqual(names["loss 0 %, 0 ms"], wires.LINK)
        self.assertEqual(names["loss 0.1 %, 1 ms"],
                         f"{wires.LINK},delay=1000us,loss=0.1%")


if __name__ == "__main__":
    unittest.main()
