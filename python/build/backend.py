"""backend - builds the wheel of the package `tern` (PEP 517).

`make python` compiles; this file puts the result into a wheel. The extension uses the limited API of Python 3.11, so the
wheel is tagged abi3 and serves every later Python. The library is inside the extension.
"""

import base64
import hashlib
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUMMARY = "A parameter manager for large sparse models: Tern from numpy and PyTorch"


def version():
    """The version that tern.h says."""
    numbers = {}
    for line in (ROOT / "include/tern/tern.h").read_text().splitlines():
        if line.startswith("#define TERN_VERSION_"):
            _, name, number = line.split()
            numbers[name.removeprefix("TERN_VERSION_")] = number
    return ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH"))


def metadata():
    return (f"Metadata-Version: 2.1\nName: tern\nVersion: {version()}\nSummary: {SUMMARY}\n"
            "License: Apache-2.0\nRequires-Python: >=3.11\n"
            "Provides-Extra: numpy\nRequires-Dist: numpy; extra == 'numpy'\n"
            "Provides-Extra: torch\nRequires-Dist: numpy; extra == 'torch'\nRequires-Dist: torch; extra == 'torch'\n")


def tag():
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp311-abi3-{platform}"


def make():
    """Compiles, and returns the folder of the package. TERN_BUILD names a build folder to use again."""
    build = os.environ.get("TERN_BUILD", "build/wheel")
    jobs = str(os.cpu_count() or 1)
    # What pip prints of a failure should be the compiler's words.
    done = subprocess.run(["make", f"-j{jobs}", f"BUILD={build}", f"PYTHON={sys.executable}", "python"],
                          cwd=ROOT, stdout=sys.stderr)
    if done.returncode:
        raise SystemExit("tern: `make python` failed; on Debian it needs gcc, make, libc6-dev, libssl-dev, "
                         "libxxhash-dev, liblz4-dev, zlib1g-dev and python3-dev")
    return ROOT / build / "python"


def entry(name, data):
    """A line of RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def write_wheel(folder, files):
    """Makes a wheel of {name: bytes}; returns its name."""
    info = f"tern-{version()}.dist-info"
    files = dict(files)
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tern\nRoot-Is-Purelib: false\nTag: {tag()}\n".encode()
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    record = "".join(entry(name, data) for name, data in files.items()) + f"{info}/RECORD,,\n"
    files[f"{info}/RECORD"] = record.encode()
    name = f"tern-{version()}-{tag()}.whl"
    with zipfile.ZipFile(Path(folder) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            information = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            information.external_attr = 0o644 << 16
            information.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(information, data)
    return name


def stripped(binary):
    """The bytes of a library without its debug information, if there is a strip."""
    with tempfile.NamedTemporaryFile() as result:
        done = subprocess.run(["strip", "--strip-unneeded", "-o", result.name, str(binary)], check=False)
        return (binary if done.returncode else Path(result.name)).read_bytes()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    built = make()
    names = [path for path in sorted((ROOT / "python/tern").glob("*")) if path.suffix in (".py", ".pyi", ".typed")]
    files = {f"tern/{path.name}": path.read_bytes() for path in names}
    for name in ("_tern.abi3.so", "libternnd.so"):
        files[f"tern/{name}"] = stripped(built / "tern" / name)
    return write_wheel(wheel_directory, files)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Points to the folder that `make python` fills."""
    return write_wheel(wheel_directory, {"tern.pth": f"{make()}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    name = f"tern-{version()}"
    wanted = ("include", "src", "python", "tools", "Makefile", "LICENSE", "README.md", "pyproject.toml")
    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz") as archive:
        for path in wanted:
            archive.add(ROOT / path, f"{name}/{path}",
                        filter=lambda member: None if "__pycache__" in member.name else member)
    return f"{name}.tar.gz"
