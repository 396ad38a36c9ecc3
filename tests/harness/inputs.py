"""The files that the unit tests of a package read when they run, and whether these have changed.

Cargo compiles an executable again when its sources change, files of include_str! among them. It does not know the files
that tests open: those of the package itself (regressions of proptest, tables, headers), and those elsewhere in the
project, to which sources refer by a path that climbs out of the package, such as ../../tests/machines.
"""

import hashlib
import re

CLIMBING = re.compile(r"(?:\.\./)+\w[\w./-]*")
# Folders that no test reads: results of builds.
BUILT = {"target", "__pycache__"}


def inputs(package, root):
    """The files, sorted. `package` is the folder of the package in the project `root`; both are absolute paths."""
    found, searched = {path for path in files(package) if is_data(path)}, set()
    waiting = [path for path in files(package) if path.suffix == ".rs"]
    while waiting:
        source = waiting.pop()
        if source in searched:
            continue
        searched.add(source)
        for climbed in CLIMBING.findall(source.read_text()):
            # From the source in #[path], from the package after CARGO_MANIFEST_DIR.
            for path in {(base / climbed).resolve() for base in (source.parent, package)}:
                if path.suffix == ".rs" and path.is_file():
                    # Compiled into the executable; it may refer to other files.
                    waiting.append(path)
                elif path.is_relative_to(root) and path.exists():
                    found.update(files(path))
    return sorted(found)


def files(path):
    if path.is_file():
        return [path]
    return [one for one in path.rglob("*") if one.is_file() and not BUILT.intersection(one.relative_to(path).parts)]


def is_data(path):
    """Whether tests may read a file of their package. Cargo observes the sources, but it compiles generated ones into a
    library that tests of their text are not linked with."""
    return path.suffix != ".rs" or "generated" in path.parts


def digest(package, root):
    """A text that changes when one of the inputs changes, is added or is removed."""
    state = hashlib.sha256()
    for path in inputs(package, root):
        content = path.read_bytes()
        state.update(f"{path.relative_to(root)}\0{len(content)}\0".encode() + content)
    return state.hexdigest()
