"""Fetch the wheels of vLLM and SGLang and keep the few modules of them that serve as peers.

The wheels are 336 MB and 39 MB. pip fetches them and checks their hashes; afterwards they are
deleted. Nothing is installed, and this program runs none of their code. A second call does nothing.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.detokenizers import (
    ORACLES,
    ROOT,
    SGLANG,
    SGLANG_FILES,
    SGLANG_VERSION,
    VLLM,
    VLLM_FILES,
    VLLM_VERSION,
)


@dataclass(frozen=True)
class Wheel:
    """One wheel and what is kept of it.

    Its tags are fixed, so that every machine gets the one file with this hash; the modules that are
    kept are plain Python.
    """

    package: str
    version: str
    megabytes: int
    sha256: str
    platform: str
    abi: str
    files: tuple[str, ...]
    folder: Path


WHEELS = (
    Wheel(
        "vllm", VLLM_VERSION, 336,
        "4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa",
        "manylinux_2_28_x86_64", "abi3", VLLM_FILES, VLLM,
    ),
    Wheel(
        "sglang", SGLANG_VERSION, 39,
        "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937",
        "manylinux_2_34_x86_64", "cp311", SGLANG_FILES, SGLANG,
    ),
)  # fmt: skip


def main() -> int:
    """Fetch and extract; return the exit code."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    ORACLES.mkdir(exist_ok=True)
    (ORACLES / ".gitignore").write_text("*\n")
    missing = [wheel for wheel in WHEELS if not _fetch(wheel)]
    return 1 if missing else 0


def _fetch(wheel: Wheel) -> bool:
    name, where = f"{wheel.package} {wheel.version}", wheel.folder.relative_to(ROOT)
    if all((wheel.folder / file).is_file() for file in wheel.files):
        print(f"{name} is in {where}.")
        return True
    with tempfile.TemporaryDirectory(dir=ORACLES, prefix="fetch-") as folder:
        path = _download(wheel, Path(folder))
        if path is None:
            print(
                f"\n{name} could not be fetched; pip says why above. The benchmarks run"
                "\nwithout this peer: make bench",
                file=sys.stderr,
            )
            return False
        extracted = Path(folder, "extracted")
        with zipfile.ZipFile(path) as archive:
            for file in wheel.files:
                archive.extract(file, extracted)
        # A folder that lacks some was made by an older version of this program.
        shutil.rmtree(wheel.folder, ignore_errors=True)
        # The last step is atomic, so a folder that exists is complete.
        extracted.rename(wheel.folder)
    print(f"Kept {len(wheel.files)} modules of {name} in {where}.")
    return True


def _download(wheel: Wheel, folder: Path) -> Path | None:
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    print(f"Fetching {wheel.package} {wheel.version} ({wheel.megabytes} MB, once) ...", flush=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--progress-bar=on", "--no-deps",
               "--require-hashes", f"--platform={wheel.platform}", "--python-version=3.11",
               f"--abi={wheel.abi}", "--implementation=cp", "--only-binary=:all:",
               f"--dest={folder}", f"--requirement={requirement}", "--no-cache-dir",
               "--disable-pip-version-check"]  # fmt: skip
    if subprocess.run(command, check=False).returncode != 0:
        return None
    return next(folder.glob("*.whl"), None)


if __name__ == "__main__":
    sys.exit(main())
