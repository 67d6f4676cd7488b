"""Adds bytecode to an archive; `compile.mjs` runs it in the Python that reads the archive."""

import importlib.util
import marshal
import sys
import zipfile

from labkit.running.platform import deep_stack

# Of a .pyc: its hash is that of the source, and whether an import looks if it still is.
_UNCHECKED, _CHECKED = 0b01, 0b11
# Readers may replace files of the course, such as starter.py; of packages nobody does.
_REPLACED = "/course"


def add_bytecode(archive: str, place: str) -> None:
    """Add the bytecode of each module of an archive that this interpreter has imported.

    In the archive that modules are imported from, which is the library, each module has bytecode in
    place of its source, which would only show lines of the library in a traceback. Readers may
    import any of them deep in their code, with too little of the stack left to compile it.

    Args:
        archive: path of a zip; it is changed.
        place: the folder into which it is unpacked, or its path if modules are imported from the
            zip itself.
    """
    imported = {getattr(module.__spec__, "origin", None) for module in sys.modules.values()}
    # An import from a zip has no folder for bytecode.
    is_zip = place.endswith(".zip")
    with zipfile.ZipFile(archive) as files:
        entries = {name: files.read(name) for name in files.namelist()}
    with zipfile.ZipFile(archive, "w") as files:
        for name, data in entries.items():
            is_imported = name.endswith(".py") if is_zip else f"{place}/{name}" in imported
            if not (is_imported and is_zip):
                files.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)
            if is_imported:
                own = f"{name}c" if is_zip else importlib.util.cache_from_source(name)
                code = _bytecode(data, f"{place}/{name}", place == _REPLACED)
                files.writestr(zipfile.ZipInfo(own), code, zipfile.ZIP_DEFLATED, 9)


def _bytecode(source: bytes, path: str, checked: bool) -> bytes:
    """Return the bytes of a .pyc (PEP 552)."""
    with deep_stack():
        code = compile(source, path, "exec", dont_inherit=True)
    flags = _CHECKED if checked else _UNCHECKED
    head = importlib.util.MAGIC_NUMBER + flags.to_bytes(4, "little")
    return head + importlib.util.source_hash(source) + marshal.dumps(code)
