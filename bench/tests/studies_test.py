"""The runner of the studies: what counts as a failure, and what its tables and pictures hold."""

import stat
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "studies"))

from comparison.libraries import LibraryError, combray  # noqa: E402
from running import energy, measuring, pages, plans, showing  # noqa: E402

STUDY = plans.STUDIES["hydro"]
START = plans.Start(2, 1, ())
RIGHT = ("library: Combray 1\ncase 1D: 2.500 ms, communication 0.500 ms\n"
         "bits: 00ff\nhydro: all right\n")


def started(output, code=0):
    """What comes of a start whose launcher prints this and ends with that code."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = Path(folder, "bin", "mpirun")
        launcher.parent.mkdir()
        Path(folder, "output").write_text(output)
        launcher.write_text(f"#!/bin/sh\ncat '{folder}/output'\nexit {code}\n")
        launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
        return measuring.run_start(STUDY, combray(Path(folder)), START, 60)


class Starts(unittest.TestCase):
    def test_a_right_result_has_its_cases_and_bits(self):
        self.assertEqual(started(RIGHT), measuring.Result([("2x1 1D", 2.5, 0.5)], "00ff"))

    def test_each_sign_of_a_wrong_result_is_a_failure(self):
        for output, code, reason in (
                (RIGHT.replace("bits", "hydro: WRONG: mass\nbits"), 0, "WRONG: mass"),
                ("", 3, "ended with 3"),
                (RIGHT.replace("hydro: all right", ""), 0, "did not say"),
                (RIGHT.replace("Combray", "Another"), 0, "another library")):
            with self.assertRaisesRegex(LibraryError, reason):
                started(output, code)

    def test_the_cases_before_a_failure_count_and_the_start_does_not(self):
        figures = measuring.Figures()
        with self.assertRaisesRegex(LibraryError, "ended with 3"):
            figures.add("A", started(RIGHT.replace("bits: 00ff\nhydro: all right\n", ""), 3))
        self.assertEqual((figures.passed, figures.best), (0, {"2x1 1D": {"A": (2.5, 0.5)}}))

    def test_other_bits_than_before_are_a_failure(self):
        figures = measuring.Figures()
        figures.add("A", measuring.Result([("case", 2.0, 1.0)], "01"))
        figures.add("A", measuring.Result([("case", 1.5, 1.2)], "01"))
        for bits in ("02", ""):
            with self.assertRaisesRegex(LibraryError, "bits"):
                figures.add("B", measuring.Result([("case", 1.0, 0.5)], bits))
        self.assertEqual(figures.passed, 2)
        self.assertEqual(figures.best, {"case": {"A": (1.5, 1.2)}})


    def test_another_library_may_be_late_and_the_judged_one_may_not(self):
        late = LibraryError("not finished after 20 s; ended")
        found = [combray(Path("/ours")), combray(Path("/theirs"))]
        with mock.patch.object(measuring, "build"), mock.patch.object(measuring, "run_start", side_effect=late):
            figures = measuring.measure(STUDY, found, "test", 20, {library.prefix: str(library.prefix) for library in found})
        starts = len(STUDY.starts["test"])
        self.assertEqual((len(figures.failures), len(figures.unfinished)), (starts, starts))
        self.assertTrue(all(sentence.startswith("/theirs") for sentence in figures.unfinished), figures.unfinished)


class Showing(unittest.TestCase):
    BEST = {"a<b": {"One": (2.0, 1.0), "Two": (1.0, 0.5)}, "c": {"One": (3.0, 1.0)}}

    def test_the_ratio_is_that_to_the_best_other(self):
        rows = showing.text_table(["One", "Two"], self.BEST, "ms (communication)").splitlines()
        self.assertTrue(rows[1].endswith("2.00 *"), rows[1])
        self.assertTrue(rows[2].endswith(" -"), rows[2])

    def test_the_ratios_above_one_of_all_studies_are_listed_with_the_slowest_first(self):
        worse = {"d": {"One": (9.0, 1.0), "Two": (3.0, 1.0), "Three": (2.0, 1.0)}, "e": {"One": (1.0, 0.0), "Two": (2.0, 0.0)}}
        lines = showing.slower_text(["One", "Two", "Three"], {"first": self.BEST, "second": worse}).splitlines()
        self.assertEqual(lines, ["ratio above 1.0 in 2 of 3 cases", "  4.50  second d   9.00, Three 2.00",
                                 "  2.00  first a<b  2.00, Two 1.00"])

    def test_a_picture_is_well_formed_and_has_a_mark_for_each_time(self):
        text = showing.picture("T & t", "s", ["One", "Two"], self.BEST, "MB")
        tags = [element.tag.rpartition("}")[2] for element in xml.etree.ElementTree.fromstring(text).iter()]
        # The legend has one mark more of each kind.
        self.assertEqual((tags.count("circle"), tags.count("polygon")), (3, 2))

    def test_every_study_has_each_size_and_a_program(self):
        for study in plans.STUDIES.values():
            self.assertEqual(set(study.starts), set(plans.SIZES))
            self.assertTrue((measuring.ROOT / "studies" / study.source).exists(), study.source)


class Costs(unittest.TestCase):
    def test_energy_is_that_of_packages_and_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            def describe(zone, name, joules):
                place = Path(folder, zone)
                place.mkdir(exist_ok=True)
                for file, text in (("name", name), ("max_energy_range_uj", 10**8), ("energy_uj", int(joules * 10**6))):
                    (place / file).write_text(f"{text}\n")
            for zone, name in (("r:0", "package-0"), ("r:0:0", "core"), ("r:0:1", "dram"), ("r:1", "psys")):
                describe(zone, name, 90)
            meter = energy.Meter(Path(folder))
            for zone, name, joules in (("r:0", "package-0", 5), ("r:0:0", "core", 95), ("r:0:1", "dram", 92.5)):
                describe(zone, name, joules)
            self.assertAlmostEqual(meter.used().joules, 17.5)  # The counter of the package has overflowed.

    def test_what_two_zones_count_is_counted_once(self):
        zones = (("intel-rapl-mmio:0", "package-0", 1), ("intel-rapl:0", "package-0", 20),
                 ("intel-rapl:0:1", "dram", 300), ("intel-rapl:1", "package-1-die-0", 4_000),
                 ("intel-rapl:1:0", "dram", 50_000), ("intel-rapl:2", "package-1-die-1", 600_000))
        for is_of_amd, expected in ((False, 0.65432), (True, 0.05432)):
            with tempfile.TemporaryDirectory() as folder:
                for zone, name, _ in zones:
                    place = Path(folder, zone)
                    place.mkdir()
                    for file, text in (("name", name), ("max_energy_range_uj", 10**8), ("energy_uj", 0)):
                        (place / file).write_text(f"{text}\n")
                with mock.patch.object(energy, "is_of_amd", return_value=is_of_amd):
                    meter = energy.Meter(Path(folder))
                for zone, _, energy_uj in zones:
                    Path(folder, zone, "energy_uj").write_text(f"{energy_uj}\n")
                self.assertAlmostEqual(meter.used().joules, expected)

    def test_without_counters_processor_time_remains(self):
        self.assertIsNone(energy.Meter(Path("/nonexistent")).used().joules)
        used = {"One": energy.Used(2.0) + energy.Used(1.5), "Two": energy.Used(4.0, 30.0) + energy.Used(1.0, 10.0)}
        self.assertEqual(energy.sentence(used), "processor time: One 3.5 s, Two 5.0 s; energy: Two 40 J\n")
        self.assertEqual(energy.sentence({}), "")

    def test_only_starts_of_all_libraries_are_compared(self):
        figures = measuring.Figures()
        figures.used = {1: {"One": energy.Used(1.0), "Two": energy.Used(2.0)}, 2: {"One": energy.Used(5.0)}}
        self.assertEqual(figures.used_by_all(["One", "Two"]), {"One": energy.Used(1.0), "Two": energy.Used(2.0)})


class Pages(unittest.TestCase):
    PAGE = "# T\n\nText.\n\n<!-- figures: old -->\n\nold\n\n<!-- end of figures -->\n\nMore.\n"

    def test_figures_replace_earlier_ones_and_text_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "x.md")
            page.write_text(self.PAGE)
            for table in ("a 1", "b 2"):
                pages.write("x", "T", "studies/run x --pages", table, "<svg/>", Path(folder))
            text = page.read_text()
            self.assertTrue(text.startswith("# T\n\nText.\n") and text.endswith("\n\nMore.\n"), text)
            self.assertIn("![T](x.svg)", text)
            self.assertIn("\nb 2\n", text)
            self.assertNotIn("a 1", text)
            self.assertNotIn("old", text)

    def test_a_page_without_marks_is_refused(self):
        with self.assertRaisesRegex(ValueError, "one line"):
            pages.replaced("# T\n", "command", "content")

    def test_every_study_has_its_page(self):
        for name in plans.STUDIES:
            page = (pages.FOLDER / f"{name}.md").read_text()
            self.assertIn(f"../../studies/{name}/README.md", page)
            pages.replaced(page, "command", "content")
