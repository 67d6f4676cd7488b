"""What is in the files of the student's site."""

import html
import io
import re
import zipfile

import pytest
from course_code import LABS


def test_the_students_site_holds_no_three_lines_of_a_solution(folder, is_student):
    if not is_student:
        pytest.skip("this is the full site")
    secret = {}
    for lab in LABS.values():
        known = threes(lines_of(lab.pristine_starter.read_text("utf-8")))
        own = threes(lines_of(lab.solution.read_text("utf-8"))) - known
        assert len(own) > 10
        secret |= dict.fromkeys(own, lab.name)
    names = []
    for name, text in all_texts(folder):
        names.append(name)
        leaks = threes(text.splitlines()) & secret.keys()
        assert leaks == set(), (name, {secret[three] for three in leaks})
    assert len(names) > 100


def threes(lines):
    """Return every three lines that follow each other."""
    return set(zip(lines, lines[1:], lines[2:], strict=False))


def lines_of(text):
    """Return the lines of a text without indentation, and without those that say nothing.

    Such are empty ones, imports, and the quotes around a docstring, which many files share.
    """
    stripped = (line.strip() for line in text.splitlines())
    return [line for line in stripped if not re.fullmatch(r'|"""|(?:import|from) .+', line)]


def all_texts(folder):
    """Yield the name and the lines of every text in a folder, archives unpacked, HTML as text."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        if path.suffix in (".zip", ".whl"):
            for name, text in unpacked(data):
                yield f"{path.name}/{name}", text
            continue
        text = data.decode("utf-8", "replace")
        if path.suffix == ".html":
            text = html.unescape(re.sub(r"<[^>]+>", "", text))
        elif path.suffix == ".json":
            text = text.replace("\\n", "\n").replace('\\"', '"')
        yield path.name, "\n".join(lines_of(text))


def unpacked(data):
    """Yield the name and the lines of every member of an archive, archives in it unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            inner = archive.read(name)
            if name.endswith((".zip", ".whl")):
                yield from unpacked(inner)
            else:
                yield name, "\n".join(lines_of(inner.decode("utf-8", "replace")))
