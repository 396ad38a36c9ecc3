"""What came of tests: a line for each, the output of what failed and how to repeat it, and the sum."""

import resource
import threading
import time

OUTPUT_LINES_MAX = 60


class Report:
    """Counts outcomes and prints them as they come, from any thread."""

    def __init__(self, width=44):
        self.outcomes = {"ok": [], "FAILED": [], "skipped": []}
        self.width = width
        self.started = time.monotonic()
        self.lock = threading.Lock()

    def add(self, outcome, name, seconds, output="", again=""):
        """`again` is the command that repeats a test that failed."""
        lines = output.splitlines()[-OUTPUT_LINES_MAX:]
        if outcome == "FAILED" and again:
            lines.append(f"again: {again}")
        with self.lock:
            self.outcomes[outcome].append(name)
            print(f"{outcome:>7}  {name:<{self.width}} {seconds:6.2f} s", flush=True)
            print("".join(f"    | {line}\n" for line in lines), end="", flush=True)

    def close(self):
        """Print the sum; gives the exit code."""
        passed, failed, skipped = map(len, self.outcomes.values())
        if failed:
            print("failed: " + ", ".join(self.outcomes["FAILED"]))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{time.monotonic() - self.started:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processor time")
        print(f"{passed} passed, {failed} failed, {skipped} skipped")
        return 1 if failed else 0
