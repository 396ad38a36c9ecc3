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


class Floors(unittest.TestCase):
    """Two rounds, in which the cores were near and far."""

    def setUp(self):
        self.key = Key("pingpong", "", 2, 1 << 20, None, "")
        self.found = Measurements()
        self.found.crossings = {goals.SUBJECT: [30.0, 150.0]}
        self.found.samples[self.key] = {goals.SUBJECT: [Sample(30.0, 31.0, None, (30.0, 31.0)),
                                                        Sample(80.0, 81.0, None, (150.0, 151.0))]}
        for crossing, cells, fetch in ((30.0, 20.0, 60.0), (150.0, 90.0, 64.0)):
            self.found.add_limits([{"record": "limit", "way": way, "bytes": 1 << 20, "us": us,
                                    "crossing_ns": crossing}
                                   for way, us in (("cells", cells), ("fetch", fetch),
                                                   ("both cells", 1.0))], (crossing,))

    def test_near_and_far_cores_have_floors_of_their_own(self):
        texts = {}
        for title, phase in self.found.phases():
            texts[title] = table.floor_text(phase, self.key)
        self.assertEqual(sorted(texts.values()), ["1.25", "1.50"])

    def test_a_limit_whose_crossing_time_changed_counts_in_neither(self):
        self.found.limits[("cells", 1 << 20)][0] = Sample(1.0, 1.0, None, (30.0, 150.0))
        near = dict(self.found.phases())["a cache line crossed in 30 to 31 ns"]
        self.assertEqual(table.floor_text(near, self.key), "0.50")

    def test_figures_without_a_floor_show_none(self):
        self.assertEqual(table.floor_text(self.found, KEY), "")
        self.assertIsNone(self.found.floor(self.key._replace(benchmark="rate")))

    def test_the_tables_show_each_way_and_the_multiple(self):
        near = dict(self.found.phases())["a cache line crossed in 30 to 31 ns"]
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            summary.print_limits(near)
        row = next(line for line in output.getvalue().splitlines() if "1 MiB" in line)
        self.assertEqual(row.split(), ["1", "MiB", "20.000", "60.000", "-", "1.000", "-", "1.50",
                                       "52.4", "-", "1048.6"])
        (head, line) = table.rows(near, [], [self.key])
        self.assertEqual(line[head.index("of floor")], "1.50")

    def test_the_summary_names_the_worst(self):
        near = dict(self.found.phases())["a cache line crossed in 30 to 31 ns"]
        line, = summary.means_of_floors(near)
        self.assertIn("not reached", line)
        self.assertIn("worst 1.50 (1 MiB), 0 of 1 reached", line)


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
