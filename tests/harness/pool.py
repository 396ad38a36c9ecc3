"""Tasks side by side: as many as fit into a number of places, those that must be alone at the end."""

import dataclasses
import os
import threading
import typing

# Most jobs sleep or wait for their system most of the time: so many processes for each core.
PLACES_PER_CORE = 8


@dataclasses.dataclass
class Task:
    """Something to do beside others."""

    work: typing.Callable[[], None]
    # How many places it takes; one that takes more than there are has all of them.
    places: int = 1
    # Runs when nothing else does.
    alone: bool = False
    # Of several tasks that need one resource, one runs at a time.
    needs: str = ""


def places_of_machine():
    return PLACES_PER_CORE * len(os.sched_getaffinity(0))


class Pool:
    """Runs those that take turns with something first, then those with many places, as far as there is room: begun last,
    each of these would have the machine for itself."""

    def __init__(self, places):
        self.places = max(1, places)
        self.free = self.places
        self.used = set()
        self.problem = None
        self.changed = threading.Condition()

    def run(self, tasks):
        """Returns when all have ended; the first exception of one is raised here, and ends the rest."""
        tasks = list(tasks)
        waiting = sorted((task for task in tasks if not task.alone), key=lambda task: (not task.needs, -task.places))
        with self.changed:
            while waiting and not self.problem:
                task = next((task for task in waiting if self._fits(task)), None)
                if task is None:
                    self.changed.wait()
                    continue
                waiting.remove(task)
                self._start(task)
            self.changed.wait_for(lambda: self.free == self.places)
            if self.problem:
                raise self.problem
        for task in tasks:
            if task.alone:
                task.work()

    def _fits(self, task):
        return min(task.places, self.places) <= self.free and (not task.needs or task.needs not in self.used)

    def _start(self, task):
        self.free -= min(task.places, self.places)
        self.used.add(task.needs)
        threading.Thread(target=self._play, args=(task,), daemon=True).start()

    def _play(self, task):
        problem = None
        try:
            task.work()
        except BaseException as raised:
            problem = raised
        with self.changed:
            self.free += min(task.places, self.places)
            self.used.discard(task.needs)
            self.problem = self.problem or problem
            self.changed.notify_all()
