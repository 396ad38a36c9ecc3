"""How callgrind's dumps are read, and what counts as a failure."""

import unittest

from counting import figures


def dump(name, count):
    return f"part: 1\n\ndesc: Trigger: Client Request: {name}\nevents: Ir\nsummary: 7\n\nfn=(1)\n0 5\ntotals: {count}\n"


class Dumps(unittest.TestCase):
    def test_iterations_are_the_difference_of_two_dumps(self):
        text = "".join([dump("nothing 10", 50), dump("nothing 20", 90), dump("barrier 10", 530),
                        dump("barrier 20", 1035), "desc: Trigger: Program termination\ntotals: 9\n"])
        self.assertEqual(figures.alone(text), {"self: barrier": 50.5})

    def test_a_call_has_what_it_usually_has_without_what_the_dump_has(self):
        sends = [390] * 5 + [544, 100] + [441] * 13
        first = dump("nothing", 20) + "".join(dump("send", count) for count in sends)
        second = dump("nothing", 20) + dump("recv", 861)
        self.assertEqual(figures.in_turns(first, second), {"two: send": 370.0, "two: recv": 841.0})


class Gate(unittest.TestCase):
    def test_more_than_one_percent_above_fails_and_less_does_not(self):
        self.assertEqual(figures.failures({"barrier": 500.0}, {"barrier": 505.0}), [])
        self.assertEqual(figures.failures({"barrier": 500.0}, {"barrier": 400.0}), [])
        failed, = figures.failures({"barrier": 500.0}, {"barrier": 505.1})
        self.assertIn("505.1 instructions, 500.0 recorded", failed)

    def test_figures_on_one_side_only_fail(self):
        self.assertEqual(len(figures.failures({"barrier": 500.0}, {"bcast": 1.0})), 2)

    def test_what_is_written_down_is_read_again(self):
        recorded = figures.Recorded({"compiler": "rustc 1.95.0", "tool": "valgrind-3.19.0"}, {"two: send": 370.0})
        self.assertEqual(figures.parse_recorded(figures.recorded_text(recorded)), recorded)
