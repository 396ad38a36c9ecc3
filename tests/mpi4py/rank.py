"""One rank of a run of mpi4py's test files: started by `run`, on every process of the job.

Writes events, one JSON object a line, to a file of its own, so that a crash or a hang of any
process loses nothing and the runner can name the test.
"""

import ast
import builtins
import faulthandler
import fnmatch
import importlib
import importlib.machinery
import json
import pathlib
import signal
import sys
import traceback
import unittest

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
        self.write(start=test.id())

    def stopTest(self, test):  # noqa: N802
        super().stopTest(test)

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


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a test file so that its probes accept this ABI's error for "not available".

    At module level the suite tries what it needs and takes NotImplementedError as "not available": it
    is raised when a symbol is missing. A library of the standard ABI has all symbols, and returns
    MPI_ERR_UNSUPPORTED_OPERATION instead. Only these probes are changed, no test.
    """

    def source_to_code(self, data, path, *, _optimize=-1):
        tree = ast.parse(data, path)
        for statement in tree.body:
            for handler in getattr(statement, "handlers", []):
                if isinstance(handler.type, ast.Name) and handler.type.id == "NotImplementedError":
                    handler.type = ast.copy_location(
                        ast.parse("__import__('builtins').unavailable()", mode="eval").body, handler.type
                    )
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


def unavailable():
    """The exceptions that an `except` of a probe catches, given the exception that is being
    handled."""
    from mpi4py import MPI

    raised = sys.exc_info()[1]
    if isinstance(raised, MPI.Exception):
        if raised.Get_error_class() == MPI.ERR_UNSUPPORTED_OPERATION:
            return MPI.Exception
    return NotImplementedError


def prepare_imports(directory):
    builtins.unavailable = unavailable
    hook = importlib.machinery.FileFinder.path_hook((Loader, [".py"]))
    sys.path_hooks.insert(0, lambda path: hook(path) if path == directory else reject(path))
    sys.path.insert(0, directory)
    # Compiled files of the suite would bring back its own probes.
    sys.dont_write_bytecode = True


def reject(path):
    raise ImportError(path)


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
    # The runner requests it when it takes the job for hung. A thread that inspects the others while
    # they run, such as after some seconds of a test, may end the process.
    faulthandler.register(signal.SIGUSR1)
    plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
    prepare_imports(plan["directory"])
    # The suite tries these array packages where it finds them; the result must not depend on that.
    for absent in ("cupy", "numba"):
        sys.modules[absent] = None
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    with open(f"{plan['results']}/rank-{world.Get_rank()}.jsonl", "a") as out:
        for name in plan["files"]:
            # One for each file: it remembers the last class, which would be torn down once more.
            recorder = Recorder(out)
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
