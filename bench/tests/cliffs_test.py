"""Which steps of a series are cliffs."""

import unittest

from comparison import cliffs


def places(measured, peers=()):
    return [(step.before, step.after, reason)
            for step, reason in cliffs.cliffs(measured, list(peers))]


class Cliffs(unittest.TestCase):
    def test_a_longer_message_may_take_longer_in_proportion(self):
        self.assertEqual(places({"size": {1000: 1.0, 2000: 2.9, 4000: 5.0}}), [])
        self.assertEqual(places({"size": {1000: 1.0, 1001: 1.6}}), [(1000, 1001, None)])

    def test_a_longer_message_that_is_faster_shows_that_the_shorter_one_is_slow(self):
        self.assertEqual(places({"size": {1000: 3.0, 1001: 1.0}}), [(1000, 1001, None)])
        self.assertEqual(places({"requests:8": {10: 3.0, 11: 1.0}}), [])

    def test_more_messages_must_not_cost_more_each(self):
        self.assertEqual(places({"requests:8": {10: 1.0, 20: 1.4, 40: 2.2}}), [(20, 40, None)])

    def test_a_peer_excuses_what_it_has_too_and_what_it_does_no_faster(self):
        measured = {"size": {1000: 1.0, 1001: 2.0}}
        own = ("A", {"size": {1000: 0.1, 1001: 0.2}})
        self.assertEqual(places(measured, [own])[0][2], "A has it, too")
        slow = ("B", {"size": {1000: 2.0, 1001: 2.0}})
        self.assertEqual(places(measured, [slow])[0][2], "B is no faster behind it")
        fast = ("C", {"size": {1000: 1.0, 1001: 1.0}})
        self.assertEqual(places(measured, [fast]), [(1000, 1001, None)])
        self.assertEqual(places(measured, [("D", {})]), [(1000, 1001, None)])


if __name__ == "__main__":
    unittest.main()
