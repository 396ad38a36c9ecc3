"""One rank of a run of mpi4py's test files: started by `run`, on every process of the job.

Writes what happens, one JSON object a line, to a file of its own, so that a crash or a hang of any
process loses nothing and the runner can say which test it was.
"""

import faulthandler
import fnmatch
import importlib
import json
import pathlib
import sys
import traceback
import unittest

# After this many seconds in one test each process prints where it is; then the runner ends the job.
STACK_AFTER_SECONDS = 25


class Recorder(unittest.TestResult):
    """Writes the start and the outcome of each test."""

    def __init__(self, out):
        super().__init__()
        self.out = out
        self.problems = 0

    def write(self, **record):
        self.out.write(json.dumps(record) + "\n")
        self.out.flush()

    def startTest(self, test):  # noqa: N802 (unittest's names)
        super().startTest(test)
        faulthandler.dump_traceback_later(STACK_AFTER_SECONDS)
        self.write(start=test.id())

    def stopTest(self, test):  # noqa: N802
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()

    def _problem(self, test, text):
        self.problems += 1
        self.write(test=test.id(), outcome="failed", text=text)

    def addSuccess(self, test):  # noqa: N802
        self.write(test=test.id(), outcome="passed")

    def addSkip(self, test, reason):  # noqa: N802
        self.write(test=test.id(), outcome="skipped", text=reason)

    def addFailure(self, test, err):  # noqa: N802
        self._problem(test, "".join(traceback.format_exception(*err)))

    addError = addFailure

    def addSubTest(self, test, subtest, err):  # noqa: N802
        if err is not None:
            self._problem(test, f"{subtest}\n" + "".join(traceback.format_exception(*err)))

    def addExpectedFailure(self, test, err):  # noqa: N802
        self.addSuccess(test)

    def addUnexpectedSuccess(self, test):  # noqa: N802
        self._problem(test, "succeeded, but was expected to fail")


def tests_of(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        else:
            yield item


def chosen(module, left_out):
    """The tests of a module but those that a pattern leaves out, in the module's order."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    return unittest.TestSuite(
        test for test in tests_of(suite)
        if not any(fnmatch.fnmatchcase(test.id(), pattern) for pattern in left_out)
    )


def run_file(name, left_out, recorder):
    try:
        module = importlib.import_module(name)
    except unittest.SkipTest as reason:
        recorder.write(test=f"{name} (import)", outcome="skipped", text=str(reason))
        return
    except Exception:
        recorder.problems += 1
        recorder.write(test=f"{name} (import)", outcome="failed", text=traceback.format_exc())
        return
    chosen(module, left_out).run(recorder)


def main():
    plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
    sys.path.insert(0, plan["directory"])
    # The suite tries these array packages where it finds them; the result must not depend on that.
    for absent in ("cupy", "numba"):
        sys.modules[absent] = None
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    with open(f"{plan['results']}/rank-{world.Get_rank()}.jsonl", "a") as out:
        recorder = Recorder(out)
        for name in plan["files"]:
            recorder.write(file=name)
            run_file(name, plan["left_out"], recorder)
            mine, all_ranks = bytearray([recorder.problems > 0]), bytearray(1)
            world.Allreduce([mine, MPI.BYTE], [all_ranks, MPI.BYTE], op=MPI.BOR)
            recorder.write(finished=name)
            # After a failure the processes may disagree about what was sent: begin afresh.
            if all_ranks[0]:
                break


if __name__ == "__main__":
    main()
