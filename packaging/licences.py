"""The licences of the crates that are linked into Combray: released files must contain their texts.
"""

import json
import pathlib

import payload

# The installed files are built from these crates of the workspace.
ROOTS = ("mpi-abi", "mpi-abi-mpich", "mpi-abi-open-mpi", "cli")
TEXTS = ("licen[cs]e*", "LICEN[CS]E*", "COPYING*", "COPYRIGHT*", "NOTICE*", "UNLICENSE*")


def text(machine):
    """One text: each crate with its version and licence, then the texts that come with them, each once."""
    crates, numbers = [], {}
    for package in linked(machine):
        folder = pathlib.Path(package["manifest_path"]).parent
        files = sorted({file for pattern in TEXTS for file in folder.glob(pattern) if file.is_file()})
        own = [numbers.setdefault(file.read_text(errors="replace").strip(), len(numbers) + 1) for file in files]
        places = f"text {', '.join(map(str, own))}" if own else "no text comes with it"
        crates.append(f"{package['name']} {package['version']}: {package['license']} ({places})")
    texts = [f"{'=' * 78}\nText {number}\n\n{content}\n" for content, number in numbers.items()]
    return "\n".join([HEAD, *crates, "", *texts])


HEAD = """Combray itself is under Apache-2.0 or MIT. Its libraries and commands contain, or were made with, these crates,
and the standard library of Rust (Apache-2.0 or MIT, https://www.rust-lang.org). The texts follow.
"""


def linked(machine):
    """The crates of others that the roots are linked with on this machine, sorted; not what only builds them."""
    metadata = json.loads(payload.output(
        "cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", f"{machine}-unknown-linux-gnu",
        "--manifest-path", payload.ROOT / "Cargo.toml"))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] in ROOTS and not package["source"]]
    reached = set()
    while waiting:
        key = waiting.pop()
        if key not in reached:
            reached.add(key)
            waiting += [one["pkg"] for one in nodes[key]["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"])]
    found = [packages[key] for key in reached if packages[key]["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))
