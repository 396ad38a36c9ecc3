"""A package for Debian. All of Combray lies in a folder of its own, laid out like any prefix; /usr/bin, the
manual and the completions are where Debian requires them. Commands are called mpirun.combray and so on there, and
`update-alternatives` offers them as choices for mpirun, mpicc and mpi.h beside those of other MPI packages.
"""

import datetime
import email.utils
import gzip
import hashlib
import os
import pathlib
import re
import subprocess
import tempfile

import payload
from payload import Entry

TEMPLATES = payload.ROOT / "packaging/debian"
# Lower than Open MPI's 50 and MPICH's 40: a system with another MPI keeps it until the
# administrator chooses.
PRIORITY = 30
# The description of the Fortran interfaces, in a prefix that has them.
FORTRAN = "lib/pkgconfig/mpi-fort.pc"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LAUNCHERS = ("mpirun", "mpiexec")
WRAPPERS = ("mpicc", "mpic++", "mpicxx", "mpiCC", "mpif77", "mpif90", "mpifort")
COMPLETIONS = {
    "share/bash-completion/completions/": "usr/share/bash-completion/completions/",
    "share/zsh/site-functions/": "usr/share/zsh/vendor-completions/",
    "share/fish/vendor_completions.d/": "usr/share/fish/vendor_completions.d/",
}


def make(entries, folder, machine):
    """Writes the package into `folder`; gives its path."""
    # The architecture, as for packages that are built on another one.
    host = dict(line.split("=", 1) for line in payload.output(
        "dpkg-architecture", "-a", ARCHITECTURES[machine], "--force").split())
    architecture, triplet = host["DEB_HOST_ARCH"], host["DEB_HOST_MULTIARCH"]
    version = package_version()
    choices = Choices(triplet, FORTRAN in entries)
    files = tree(entries, triplet, choices)
    package = pathlib.Path(folder, f"combray_{version}_{architecture}.deb").absolute()
    with tempfile.TemporaryDirectory() as stage:
        for entry in files:
            write(pathlib.Path(stage, entry.path), entry)
        values = {
            "VERSION": version, "ARCHITECTURE": architecture, "DEPENDS": depends(stage, files, host),
            "SIZE": str(sum(-(-len(entry.content) // 1024) + 1 for entry in files)),
            "INSTALL": choices.install(), "REMOVE": choices.remove(), "HOME": f"/{home(triplet)}",
        }
        sums = "".join(f"{hashlib.md5(entry.content).hexdigest()}  {entry.path}\n"
                       for entry in files if not entry.target)
        write(pathlib.Path(stage, "DEBIAN/md5sums"), Entry("", content=sums.encode()))
        for name, mode in (("control", 0o644), ("postinst", 0o755), ("prerm", 0o755), ("postrm", 0o755)):
            text = filled((TEMPLATES / f"{name}.in").read_text(), values)
            write(pathlib.Path(stage, "DEBIAN", name), Entry("", mode, text.encode()))
        for place, _, _ in os.walk(stage):
            os.chmod(place, 0o755)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=1", "--build", stage, package], check=True,
            stdout=subprocess.DEVNULL, env=dict(os.environ, SOURCE_DATE_EPOCH=str(payload.epoch())))
    return package


def home(triplet):
    """The folder that is laid out like a prefix."""
    return f"usr/lib/{triplet}/combray"


class Choices:
    """The groups of alternatives: a link with its group and file, and the links that follow it."""

    def __init__(self, triplet, has_fortran):
        settings = {"mpi": "combray", "mpi-c": "combray", "mpi-cxx": "combray"}
        if has_fortran:
            settings["mpi-fort"] = "combray-fort"
        self.groups = [
            (f"/usr/include/{triplet}/mpi", f"mpi-{triplet}", f"/{home(triplet)}/include", [
                (f"/usr/lib/{triplet}/libmpi.so", f"libmpi.so-{triplet}", f"/{home(triplet)}/lib/libmpi_abi.so"),
                *((f"/usr/lib/{triplet}/pkgconfig/{name}.pc", f"{name}.pc-{triplet}",
                   f"/usr/lib/{triplet}/pkgconfig/{own}.pc") for name, own in settings.items()),
            ]),
            self.commands("mpi", WRAPPERS),
            self.commands("mpirun", LAUNCHERS),
        ]
        _, _, _, followers = self.groups[-1]
        for place in COMPLETIONS.values():
            for name in LAUNCHERS:
                file = completion(place, name)
                followers.append((f"/{file}", file.replace("usr/share/", "").replace("/", "-"), f"/{file}.by-combray"))

    @staticmethod
    def commands(group, names):
        commands = [(f"/usr/bin/{name}", name, f"/usr/bin/{name}.combray") for name in names]
        pages = [(f"/usr/share/man/man1/{name}.1.gz", f"{name}.1.gz", f"/usr/share/man/man1/{name}.combray.1.gz")
                 for name in names]
        link, _, file = commands[0]
        return link, group, file, commands[1:] + pages

    def install(self):
        lines = []
        for link, group, file, followers in self.groups:
            lines.append(f"    update-alternatives --install {link} {group} {file} {PRIORITY}")
            lines += [f"        --slave {' '.join(follower)}" for follower in followers]
        return re.sub(r"\n(?=        )", " \\\\\n", "\n".join(lines))

    def remove(self):
        return "\n".join(f"    update-alternatives --remove {group} {file}" for _, group, file, _ in self.groups)


def completion(place, name):
    """The file of the completions of a command in the folder of a shell."""
    return place + {"bash": name, "zsh/": f"_{name}", "fish": f"{name}.fish"}[place.removeprefix("usr/share/")[:4]]


def package_version():
    return f"{payload.version()}-1"


def changelog():
    """Debian's own changelog, beside that of Combray."""
    return (f"combray ({package_version()}) unstable; urgency=medium\n\n  * Release: see changelog.gz.\n\n"
            f" -- The Combray developers <combray@localhost>  {email.utils.format_datetime(moment())}\n")


def copyright_text():
    licence = (payload.ROOT / "LICENSE-MIT").read_text().split("\n\n", 2)[2]
    indented = "\n".join(f" {line}" if line else " ." for line in licence.strip().splitlines())
    return filled((TEMPLATES / "copyright").read_text(), {"EXPAT": indented})


def tree(entries, triplet, choices):
    """All files of the package, where they lie."""
    own = home(triplet)
    files = {}

    def put(path, mode=0o644, content=b"", target=""):
        files[path] = Entry(path, mode, content, target)

    for path, entry in entries.items():
        if path.startswith("share/man/man1/"):
            page(put, pathlib.Path(path).name, entry)
        elif path.startswith("share/man/man7/"):
            put(f"usr/{path}.gz", content=packed(entry.content))
        elif path.startswith("share/man/man3/"):
            # `man MPI_Send` finds them beside the pages of other packages.
            content = re.sub(rb"^(\.so man3/\w+\.3)$", rb"\1combray", entry.content, flags=re.M)
            put(f"usr/{path}combray.gz", content=packed(content))
        elif path.startswith("share/doc/combray/") and not re.search(r"/(LICENSE-\w+|CHANGELOG.md)$", path):
            put(f"usr/{path}", content=entry.content)
        elif path.startswith(tuple(COMPLETIONS)):
            start = next(start for start in COMPLETIONS if path.startswith(start))
            file = COMPLETIONS[start] + path[len(start):]
            put(file if "combray" in file else f"{file}.by-combray", content=entry.content)
        elif not path.startswith("share/"):
            # Debian's shared libraries are not executable.
            mode = 0o644 if ".so" in path else entry.mode
            put(f"{own}/{path}", mode, entry.content, entry.target)
    # Programs that search for the documentation of this prefix find it.
    put(f"{own}/share", target="../../../share")
    for name in ("combray", *LAUNCHERS, *WRAPPERS):
        command = "combray" if name == "combray" else f"{name}.combray"
        put(f"usr/bin/{command}", target=f"../lib/{triplet}/combray/bin/{name}")
    # The alternative for mpi.h lies beside this link.
    put(f"usr/include/{triplet}/combray", target=f"../../lib/{triplet}/combray/include")
    put(f"usr/lib/{triplet}/cmake/combray", target="../combray/lib/cmake/combray")
    for name, source in (("combray", "lib/pkgconfig/combray.pc"), ("combray-fort", FORTRAN)):
        if source in entries:
            put(f"usr/lib/{triplet}/pkgconfig/{name}.pc",
                content=entries[source].content.replace(b"prefix=${pcfiledir}/../..", f"prefix=/{own}".encode(), 1))
    doc = "usr/share/doc/combray"
    put(f"{doc}/changelog.Debian.gz", content=packed(changelog().encode()))
    put(f"{doc}/changelog.gz", content=packed(entries["share/doc/combray/CHANGELOG.md"].content))
    put(f"{doc}/copyright", content=copyright_text().encode())
    missing = [file for *_, file, followers in choices.groups for file in (file, *(one[2] for one in followers))
               if file[1:] not in files and not any(path.startswith(f"{file[1:]}/") for path in files)]
    assert not missing, f"choices without files: {missing}"
    return [files[path] for path in sorted(files)]


def page(put, name, entry):
    """Puts a page of the manual, which has the name of its command in Debian."""
    name = name if name.startswith("combray") else name.replace(".1", ".combray.1")
    put(f"usr/share/man/man1/{name}.gz", content=packed(entry.content))


def packed(content):
    return gzip.compress(content, 9, mtime=0)


def moment():
    return datetime.datetime.fromtimestamp(payload.epoch(), datetime.timezone.utc)


def depends(stage, files, host):
    """The packages that the ELF files need, by dpkg-shlibdeps; `host` has the variables of their architecture."""
    programs = [pathlib.Path(stage, entry.path) for entry in files if entry.is_elf]
    folders = {f"-l{file.parent}" for file in programs if ".so" in file.name}
    is_cross = host["DEB_HOST_ARCH"] != host["DEB_BUILD_ARCH"]
    if is_cross:
        folders.add(f"-l/usr/{host['DEB_HOST_MULTIARCH']}/lib")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "debian").mkdir()
        pathlib.Path(folder, "debian/control").write_text("Source: combray\n\nPackage: combray\nArchitecture: any\n")
        # Libraries of these names are ours, whichever package of this machine has others.
        names = sorted({name for file in programs if (name := soname(file))})
        pathlib.Path(folder, "debian/shlibs.local").write_text("".join(f"{name} {number}\n" for name, number in names))
        found = subprocess.run(
            ["dpkg-shlibdeps", "-O", "--ignore-missing-info", *sorted(folders), *programs], cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, env=dict(os.environ, **host))
    if found.returncode:
        raise SystemExit(f"packaging/debian.py: dpkg-shlibdeps fails:\n{found.stderr}")
    needed = re.search("^shlibs:Depends=(.*)$", found.stdout, re.M)[1]
    if is_cross:
        # Packages for cross compilers name the architecture, and of the C library only their own
        # version.
        major, minor = payload.glibc(files)
        needed = re.sub(f":{host['DEB_HOST_ARCH']}|-{host['DEB_HOST_ARCH']}-cross", "", needed)
        needed = re.sub(r"libc6 \(>= [\d.]+\)", f"libc6 (>= {major}.{minor})", needed)
    return needed


def soname(file):
    """Name and number of a library, as in `libmpi 40`; None for other files."""
    told = payload.output("readelf", "--dynamic", "--wide", file)
    found = re.search(r"\(SONAME\).*\[(\S+)\.so\.(\S+)\]", told)
    return found and found.groups()


def filled(text, values):
    """A template with its values."""
    return re.sub("@([A-Z]+)@", lambda found: values[found[1]], text)


def write(path, entry):
    path.parent.mkdir(parents=True, exist_ok=True)
    if entry.target:
        path.symlink_to(entry.target)
    else:
        path.write_bytes(entry.content)
        path.chmod(entry.mode)
