"""A stand-in for the package index: what `make upstream` fetches, made of what pages say of it.

It runs at the root of a clone. The archives go to `stand-in/`; they have each file that the reading
map, the page on fronts and the labs name, and in each all that these pages say. The clone's pins
become their hashes.
"""

import hashlib
import io
import re
import sys
import tarfile
import zipfile
from pathlib import Path

sys.path.insert(0, "upstream")
import sources

PLACE = Path("stand-in")
PINS = Path("upstream/sources.py")


def main():
    """Write the archives and their hashes."""
    PLACE.mkdir()
    pages = [*sources.tables(), *sources.notes()]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    paths = {code for code in re.findall(r"`([^`\n]+)`", text) if sources._PATH.fullmatch(code)}
    pins = PINS.read_text(encoding="utf-8")
    for source in sources.ENGINES:
        ours = (path for path in paths if any(path.startswith(f"{keep}/") for keep in source.keeps))
        files = {f"{path}x.py" if path.endswith("/") else path: text for path in ours}
        archive = write_wheel(source, files) if source.options else write_sdist(source, files)
        pins = pins.replace(source.sha256, hashlib.sha256(archive.read_bytes()).hexdigest())
    PINS.write_text(pins, encoding="utf-8")


def metadata(source):
    return f"Metadata-Version: 2.1\nName: {source.package}\nVersion: {source.version}\n"


def write_sdist(source, files):
    path = PLACE / f"{source.package}-{source.version}.tar.gz"
    backend = '[build-system]\nrequires = []\nbuild-backend = "setuptools.build_meta"\n'
    files = {**files, "PKG-INFO": metadata(source), "pyproject.toml": backend}
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{source.inside}{name}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def write_wheel(source, files):
    path = PLACE / f"{source.package}-{source.version}-py3-none-any.whl"
    info = f"{source.package}-{source.version}.dist-info"
    wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    more = {f"{info}/METADATA": metadata(source), f"{info}/WHEEL": wheel, f"{info}/RECORD": ""}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, **more}.items():
            archive.writestr(name, text)
    return path


main()
