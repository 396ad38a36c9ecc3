"""Jobs: processes that are started in a group of their own, bounded in time, and ended as a whole."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

# The time within which a job must end after it was asked to.
END_SECONDS = 5

_running = set()
_stopped = threading.Event()


class Stopped(Exception):
    """This runner was asked to stop by a signal."""


def start(command, **options):
    """Start a job whose output comes as one text."""
    if _stopped.is_set():
        raise Stopped
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True, **options)
    _running.add(process)
    return process


def run_bounded(command, timeout, standard_input=None, **options):
    """Run a job; gives its exit code, None if it had to be ended, and its output."""
    process = start(command, **options)
    try:
        output, _ = process.communicate(standard_input, timeout=timeout)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        return None, end(process)
    except BaseException:
        # The runner is stopped by a signal: its job must not live on.
        end(process)
        raise
    finally:
        _running.discard(process)


def run(command, timeout=30.0, **options):
    """Run a job that must come to its end; gives exit code, output and seconds."""
    started = time.monotonic()
    code, output = run_bounded(command, timeout, **options)
    words = shlex.join(map(str, command))
    assert code is not None, f"{words}: no end after {timeout} s\n{output}"
    return code, output, time.monotonic() - started


def end(process):
    """End a job and return its output: first by a signal to its launcher, then by force."""
    # A launcher that gets a signal ends its processes, which may be in groups of their own.
    _signal(process, signal.SIGTERM)
    try:
        return process.communicate(timeout=END_SECONDS)[0]
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
        return process.communicate()[0]


def _signal(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


@contextlib.contextmanager
def private_folder():
    """Jobs and scenarios make their temporary files, and keep durations, in a folder that is this runner's own."""
    with tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        os.environ["XDG_STATE_HOME"] = os.path.join(folder, "states")
        yield


def stop_with_jobs(name):
    """A signal that stops this runner ends its jobs as well; to be called by its main thread."""
    def stop(*_):
        _stopped.set()
        for process in list(_running):
            _signal(process, signal.SIGTERM)
        sys.exit(f"{name}: told to stop")

    signal.signal(signal.SIGTERM, stop)
    # A shell that starts this runner in the background lets it ignore both, and its jobs after it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
