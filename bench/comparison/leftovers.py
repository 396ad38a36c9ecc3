"""What a library leaves behind when it is ended by force: files in /dev/shm."""

import os

SHARED_MEMORY = "/dev/shm"

# Names that the compared libraries give to their files; others are never touched.
KNOWN_PREFIXES = ("mpich_shm_", "ucx_shm_posix_", "sm_segment.", "osc_", "Intel_MPI_")


def shared_files() -> set:
    try:
        return {name for name in os.listdir(SHARED_MEMORY) if name.startswith(KNOWN_PREFIXES)}
    except OSError:
        return set()


def _mapped_files() -> set:
    """Paths in /dev/shm that some process has mapped."""
    mapped = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/maps", encoding="utf-8", errors="replace") as file:
                mapped.update(line.split()[5] for line in file
                              if f" {SHARED_MEMORY}/" in line)
        except OSError:
            continue
    return mapped


def remove_new_files(before: set) -> None:
    """Removes files that were created after `before` and are in use by no process."""
    created = shared_files() - before
    if not created:
        return
    mapped = _mapped_files()
    for name in created:
        path = f"{SHARED_MEMORY}/{name}"
        if path not in mapped:
            try:
                os.unlink(path)
            except OSError:
                pass
