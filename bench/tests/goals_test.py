"""The report of a comparison about times that became longer."""

import contextlib
import io
import unittest

from comparison import goals, summary, table
from comparison.running import Key, Measurements, Sample

KEY = Key("allreduce", "", 2, 8, None, "")


def measured(mine, before):
    """Samples of one figure: (best, median) of each round."""
    found = Measurements()
    found.samples[KEY] = {
        name: [Sample(best, median, None, ()) for best, median in rounds]
        for name, rounds in ((goals.SUBJECT, mine), (goals.BEFORE, before)) if rounds}
    return found


class Before(unittest.TestCase):
    def test_what_is_slower_by_median_is_slower_although_its_best_batch_is_not(self):
        found = measured([(1.0, 1.5), (0.9, 1.4), (1.1, 1.6)], [(1.0, 1.0), (1.0, 1.0), (1.0, 1.0)])
        self.assertAlmostEqual(goals.ratio_to_before(found, KEY), 1.5)
        self.assertAlmostEqual(goals.ratio_to_before(found, KEY, Measurements.best), 0.9)

    def test_both_ratios_are_shown_and_the_usual_one_is_counted(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            summary.print_before(measured([(0.9, 1.5)], [(1.0, 1.0)]), "near")
        self.assertIn("geometric mean 1.500 (0.900) of 1 figures; 1 above 1.08", output.getvalue())
        self.assertIn("1.500 (0.900)  allreduce, 8 B, 2 processes", output.getvalue())

    def test_a_figure_that_one_state_lacks_has_no_ratio(self):
        self.assertIsNone(goals.ratio_to_before(measured([(1.0, 1.0)], []), KEY))
        self.assertIsNone(goals.ratio_to_before(measured([], [(1.0, 1.0)]), KEY))


class Processors(unittest.TestCase):
    def test_bandwidths_between_hosts_tell_what_a_byte_costs(self):
        found = Measurements()
        for place in ("plain", ""):
            key = Key("pingpong", "", 2, 1 << 20, None, place)
            found.samples[key] = {goals.SUBJECT: [
                Sample(1000.0, 2000.0, None, (), None, processor) for processor in (900, 1048.576, 9999)]}
        texts = [table.figure(found, key, goals.SUBJECT) for key in found.samples]
        self.assertEqual(texts, ["1.05 (0.524) GB/s, 1.00 ns/B", "1.05 (0.524) GB/s"])


class Calls(unittest.TestCase):
    def test_each_call_has_a_goal_and_all_of_them_a_mean(self):
        found = Measurements()
        for name, mine, other in (("Sendrecv", 2.0, 1.0), ("Wtime", 0.5, 1.0)):
            found.samples[Key("calls", name, 2, 8, None, "")] = {
                goals.SUBJECT: [Sample(mine, mine, None, ())],
                "mpich": [Sample(other, other, None, ())]}
        verdicts = [goals.verdict(found, key) for key in found.samples]
        self.assertEqual(verdicts, ["not reached", "reached"])
        [text] = summary.means_of_cells(found)
        self.assertIn("not reached  geometric mean 1.00 of 2 cells", text)
