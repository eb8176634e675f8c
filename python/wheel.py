#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""wheel.py: the package and the library that was built, in one wheel.

usage: wheel.py LIBRARY DIRECTORY

The wheel goes into DIRECTORY, and its path is printed. A wheel is a zip file with a list of what is in it
(PEP 427), so nothing but Python is needed, and nothing is fetched. The library is stripped, if there is a
strip, and its plugin for CUDA and libnccl.so.2 go along, if they were built. The tag is manylinux, with the
glibc that the library needs, where it needs nothing else (PEP 600); else it is that of this platform.

It is also what pip calls for `pip install ./python` (PEP 517), with the library of TUTTI_LIBRARY, or that of
the folder build/ beside python/. Where there is none, pip says so: a package without it could not be
imported."""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "python.md"
KNOWN = r"libtutti\.so\.0|(libc|libm|libdl|librt|libpthread)\.so\.\d|ld-linux-.*\.so\.\d"


def facts():
    """[project] of pyproject.toml. Python reads TOML since 3.11 only."""
    section = (HERE / "pyproject.toml").read_text().split("[project]\n")[1].split("\n[")[0]
    found = re.findall(r"^(\S+) = (\[.*?\]|[^\n]*)$", section, re.M | re.S)
    return {key: re.findall('"([^"]*)"', value) for key, value in found}


def description():
    """The page for users, in which links to other files of the sources are plain words."""
    return re.sub(r"\[([^][]*)\]\((?!#|https?:)[^()]*\)", r"\1", PAGE.read_text())


def tag(libraries):
    platform = re.sub("[-.]", "_", sysconfig.get_platform())
    readelf = shutil.which("readelf")
    if readelf is None:
        return platform
    newest = 17
    for path in libraries:
        said = subprocess.run([readelf, "-dVW", path], capture_output=True, text=True, check=True).stdout
        if not all(re.fullmatch(KNOWN, needed) for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", said)):
            return platform
        newest = max([newest] + [int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", said)])
    return platform.replace("linux_", f"manylinux_2_{newest}_")


def stripped(path, folder):
    """A copy without what only a debugger reads."""
    copy = pathlib.Path(folder, path.name)
    shutil.copyfile(path, copy)
    strip = shutil.which("strip")
    if strip is not None:
        subprocess.run([strip, "--strip-unneeded", copy], check=True)
    return copy


def members(libraries, project, platform):
    """What is in the wheel: names, and bytes."""
    for path in sorted((HERE / "tutti").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            yield f"tutti/{path.name}", path.read_bytes()
    for path in libraries:
        yield f"tutti/{path.name}", path.read_bytes()
    info = f"{project['name'][0]}-{project['version'][0]}.dist-info"
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {project['name'][0]}",
        f"Version: {project['version'][0]}",
        f"Summary: {project['description'][0]}",
        "License: BSD-3-Clause",
        *(f"Classifier: {each}" for each in project["classifiers"]),
        f"Requires-Python: {project['requires-python'][0]}",
        *(f"Requires-Dist: {each}" for each in project["dependencies"]),
        "Description-Content-Type: text/markdown",
        "",
        description(),
    ]
    wheel = [
        "Wheel-Version: 1.0",
        "Generator: tutti",
        "Root-Is-Purelib: false",
        f"Tag: py3-none-{platform}",
        "",
    ]
    yield f"{info}/METADATA", "\n".join(metadata).encode()
    yield f"{info}/WHEEL", "\n".join(wheel).encode()
    yield f"{info}/LICENSE", (HERE.parent / "LICENSE").read_bytes()


def make(library, folder):
    """The file's name."""
    if not os.path.isdir(folder):
        sys.exit(f"wheel.py: {folder}: legal is a directory that is there, for the wheel to go into")
    project = facts()
    with tempfile.TemporaryDirectory() as scratch:
        built = pathlib.Path(library).resolve().parent
        nccl = built / "tutti" / "nccl" / "libnccl.so.2"  # where it is installed; or beside it, as built
        nccl = nccl if nccl.exists() else built / nccl.name
        wanted = [pathlib.Path(library), built / "libtutti_cuda.so", nccl]
        libraries = [stripped(path, scratch) for path in wanted if path.exists()]
        if not libraries or libraries[0].name != "libtutti.so.0":
            sys.exit(f"wheel.py: {library}: legal is the path of a libtutti.so.0 that was built")
        platform = tag(libraries)
        name, version = project["name"][0], project["version"][0]
        path = os.path.join(folder, f"{name}-{version}-py3-none-{platform}.whl")
        record = []
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
            for member, content in members(libraries, project, platform):
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                record.append(f"{member},sha256={digest},{len(content)}")
                mode = 0o755 if ".so" in member else 0o644
                wheel.writestr(entry(member, mode), content)
            member = f"{name}-{version}.dist-info/RECORD"
            wheel.writestr(entry(member, 0o644), "\n".join([*record, f"{member},,", ""]))
    return os.path.basename(path)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """What pip calls."""
    built = HERE.parent / "build" / ".libs" / "libtutti.so.0"
    library = pathlib.Path(os.environ.get("TUTTI_LIBRARY", built))
    if not library.exists():
        sys.exit(
            f"The package needs the C library inside, and there is no {library}. Build it first (./start"
            " install PREFIX, or configure and make), and say where it is:"
            " TUTTI_LIBRARY=PREFIX/lib/libtutti.so.0 pip install ./python"
        )
    return make(library, wheel_directory)


def build_sdist(sdist_directory, config_settings=None):
    sys.exit("The package's sources are those of the whole library: `make dist` in its build directory.")


def entry(member, mode):
    """The same time in each, so that the same files make the same wheel."""
    found = zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0))
    found.external_attr = (0o100000 | mode) << 16
    found.compress_type = zipfile.ZIP_DEFLATED
    return found


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    print(os.path.join(sys.argv[2], make(*sys.argv[1:])))
