"""Which mirror of Debian this machine's own apt uses, and whether it answers.

apt has two styles of sources, a line each in `sources.list` and paragraphs in `*.sources`; see
https://manpages.debian.org/sources.list.
"""

import email
import re
import urllib.request
from pathlib import Path

from chroot import Unavailable

SUITES = ("stable", "testing", "unstable", "sid", "oldstable")
# Whatever else a machine's sources lead to is not asked.
MOST_MIRRORS = 2
SECONDS = 20


def find_mirror(suite: str, apt: Path = Path("/etc/apt")) -> tuple[str, str]:
    """Return the address of a mirror that answers, and the suite's code name there.

    Raises:
        Unavailable: apt's sources name no mirror of Debian, or none that answers.
    """
    mirrors = mirrors_of(apt, code_name(Path("/etc/os-release")))
    if not mirrors:
        raise Unavailable("apt's sources name no mirror of Debian")
    reasons = []
    for mirror in mirrors[:MOST_MIRRORS]:
        try:
            with urllib.request.urlopen(
                f"{mirror}/dists/{suite}/InRelease", timeout=SECONDS
            ) as reply:
                release = reply.read(4096).decode("utf-8", "replace")
        except OSError as error:
            reasons.append(f"no Debian {suite} at {mirror}: {getattr(error, 'reason', error)}")
            continue
        name = re.search(r"^Codename: *(\S+)$", release, re.MULTILINE)
        if name and re.search(r"^Origin: *Debian$", release, re.MULTILINE):
            return mirror, name[1]
        reasons.append(f"no Debian {suite} at {mirror}: it is not of Debian")
    raise Unavailable("; ".join(reasons))


def mirrors_of(apt: Path, code: str) -> list[str]:
    """Return the addresses from which apt takes Debian's main archive, in the order of its files.

    Args:
        apt: the folder of apt's configuration.
        code: the machine's own release, such as `bookworm`: its suites are the main archive.
    """
    mirrors: dict[str, None] = {}
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for path in files:
        read = {".list": _lines, ".sources": _paragraphs}.get(path.suffix)
        if read is None or not path.is_file():
            continue
        for types, addresses, suites, components in read(path.read_text("utf-8", "replace")):
            if "deb" in types and "main" in components and {*SUITES, code}.intersection(suites):
                mirrors |= {one.rstrip("/"): None for one in addresses if one.startswith("http")}
    return list(mirrors)


def _lines(text: str):
    for line in text.splitlines():
        words = re.sub(r"^(\w\S*)\s+\[.*?\]", r"\1", line.partition("#")[0]).split()
        if len(words) > 3:
            yield words[:1], words[1:2], words[2:3], words[3:]


def _paragraphs(text: str):
    text = re.sub(r"^#.*\n?", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", text):
        fields = email.message_from_string(paragraph.strip())
        if fields.get("Enabled", "yes").strip().lower() in ("yes", "true", "1"):
            yield tuple(
                fields.get(name, "").split() for name in ("Types", "URIs", "Suites", "Components")
            )


def code_name(os_release: Path) -> str:
    """Return the code name of a system's release, or an empty text."""
    text = os_release.read_text("utf-8") if os_release.exists() else ""
    name = re.search(r"^VERSION_CODENAME=(\w+)$", text, re.MULTILINE)
    return name[1] if name else ""
