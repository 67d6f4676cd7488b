"""Install vLLM and SGLang as far as their parsers and `vllm launch render` need, without a GPU.

    .venv/bin/python -m tests.oracles.engines.install

They go to `.oracles/engines`, an environment of their own (3.8 GB; three to eight minutes). The
engines' pins of torch are broken on purpose: it is a build for CPUs, if pip can find one, and the
packages for CUDA are left out. Without such a build nothing is installed, and the exit code is 3.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from benchmarks.peers.detokenizers import ORACLES
from benchmarks.peers.fetch_vllm import WHEELS, Wheel, _download

FOLDER = ORACLES / "engines"
PYTHON = FOLDER / "bin" / "python"
_DONE = FOLDER / ".done"
_TORCH = "torch==2.13.0+cpu"
# Packages for CUDA, and such as only models need.
_LEFT_OUT = re.compile(
    r"torch|nvidia|flashinfer|apache-tvm|tilelang|quack|tokenspeed|humming|fastsafetensors|numba"
    r"|opencv|PyNv|nvtx|instanttensor"
)
# The modules of SGLang's parsers import these.
_FOR_SGLANG = ("ipython", "interegular", "pytest")
NO_TORCH = 3


def main() -> int:
    """Install unless it is done; return the exit code."""
    if _DONE.exists():
        return 0
    ORACLES.mkdir(exist_ok=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    print("Installing vLLM and SGLang for their parsers (3.8 GB, some minutes) ...", flush=True)
    venv.create(FOLDER, with_pip=True)
    if _pip(_TORCH):
        print(f"There is no {_TORCH} here, so the engines' stand-ins are used.")
        shutil.rmtree(FOLDER)
        return NO_TORCH
    with tempfile.TemporaryDirectory(dir=ORACLES, prefix="fetch-") as folder:
        wheels = [_fetched(wheel, Path(folder, wheel.package)) for wheel in WHEELS]
        if None in wheels:
            return 1
        needs = [need for need in _needs(str(wheels[0])) if not _LEFT_OUT.match(need)]
        if _pip(*needs, *_FOR_SGLANG) or _pip("--no-deps", *map(str, wheels)):
            return 1
    _DONE.touch()
    return 0


def _fetched(wheel: Wheel, folder: Path) -> Path | None:
    folder.mkdir()
    return _download(wheel, folder)


def _needs(wheel: str) -> list[str]:
    """Return what a wheel requires, without extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    return [
        line.partition(": ")[2]
        for line in text.split("\n\n")[0].splitlines()
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]


def _pip(*words: str) -> int:
    command = [PYTHON, "-m", "pip", "install", "--quiet", "--no-cache-dir",
               "--disable-pip-version-check", *words]  # fmt: skip
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
