"""Grades without names: every student is a pseudonym, the same in each report and each grading.

A pseudonym is made from the student's identifiers and a secret that the repository keeps, so a
reader cannot try names until one fits. Texts and sources that students wrote are searched for the
names of all students, word by word, and each name is replaced by its student's pseudonym.

A word that is common in code or in English, such as `max` or `will`, is not replaced if it has no
capital letter and is not beside another word of the same name. In the texts of a grade, which are
the grader's with quotations of the student's, the same holds for every word of the grader's own
texts, with capitals or without: in `starter.py is empty`, a pseudonym would give a surname away. A
nickname that is in no list is not replaced.
"""

import ast
import builtins
import hmac
import keyword
import os
import re
import secrets
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from functools import cache
from pathlib import Path

from labkit.errors import UsageError
from labkit.grading.grade import Grade
from labkit.grading.marks.mark import Mark
from labkit.grading.marks.roster import folded
from labkit.grading.marks.students import Student
from labkit.grading.reading.entry_name import read_entry_name
from labkit.grading.reports.fitting import fit
from labkit.running.reporting.explain import GradedTest

FILE = ".labkit/pseudonyms-key"
_KEY, _DIGITS = 64, 10
_WORD = re.compile(r"[^\W_]+")
_SHORTEST, _SHORTEST_NUMBER = 3, 5
# Between the words of one name.
_GAP = re.compile(r"[ _.-]|, ?")
# The text that platforms put after a name: numbers of the student and of the file.
_NUMBERS = re.compile(r"(?:_LATE)?_[0-9]+_(?:[0-9]+|assign(?:submission|feedback))_\w+")
# Words of entries that are not names.
_OF_ENTRIES = "lab py zip starter solution student submission file late final team"
# Names that are also words.
_ENGLISH = """
and any art best bill black brown case chance day dean drew field ford frank good grace gray green
guy hill hope joy key king law list long love map mark may new old page park pat price rich rose
sharp short sky small stone strong sue text token van von white will wise wood young
"""
_NOBODYS = frozenset(_OF_ENTRIES.split())
_CODE = frozenset([*keyword.kwlist, *dir(builtins)])
_NONE: Set[Student] = frozenset()
_COMMON = _CODE.union(_ENGLISH.split())


class Pseudonyms:
    """The pseudonyms of these students.

    Args:
        students: all students of a grading.
        key: a secret; another key gives other pseudonyms.
    """

    def __init__(self, students: Sequence[Student], key: bytes) -> None:
        self.names = {student: _pseudonym(student, key) for student in students}
        self._by_entry = {
            student.entry: student for student in students if student.entry is not None
        }
        self._owners: dict[str, set[Student]] = defaultdict(set)
        for student in students:
            for word in _words(student):
                self._owners[word].add(student)

    def grade(self, grade: Grade) -> Grade:
        """Return a grade without names."""
        student, grade = self._by_entry[grade.student], fit(grade)
        own = _own_words() | {_bare(word) for test in grade.tests for word in _words_in(test.rule)}

        def without_names(test: GradedTest) -> GradedTest:
            return replace(
                test,
                message=self.text(test.message, student, own),
                detail=self.text(test.detail, student, own),
                for_student=self.text(test.for_student, student, own),
            )

        return replace(
            grade,
            student=self.names[student],
            fault=None if grade.fault is None else self.text(grade.fault, student, own),
            remarks=tuple(self.text(remark, student, own) for remark in grade.remarks),
            tests=tuple(map(without_names, grade.tests)),
        )

    def mark(self, mark: Mark, student: Student) -> Mark:
        """Return a student's mark without names."""
        adjustments = tuple(
            replace(adjustment, reason=self.text(adjustment.reason, student))
            for adjustment in mark.adjustments
        )
        name = self.names[student]
        extension = mark.extension and replace(
            mark.extension, reason=self.text(mark.extension.reason, student)
        )
        return replace(
            mark,
            student=name,
            first="",
            last="",
            email="",
            adjustments=adjustments,
            extension=extension,
        )

    def source(self, data: bytes, entry: str) -> bytes:
        """Return the source of an entry's student without names."""
        text = data.decode("utf-8", "replace")
        return self.text(text, self._by_entry[entry]).encode("utf-8", "replace")

    def text(self, text: str, author: Student, own: Set[str] = frozenset()) -> str:
        """Return a text by a student, or a text about it, without names.

        Args:
            text: the text.
            author: the student.
            own: the grader's own words, if the text is the grader's.
        """
        text = unicodedata.normalize("NFC", text)
        if author.entry and not _WORD.fullmatch(author.entry):
            text = text.replace(author.entry, self.names[author])
        text = _NUMBERS.sub("", text)
        matches = [*_WORD.finditer(text)]
        owners = [self._owners.get(_bare(match[0]), _NONE) for match in matches]
        parts: list[str] = []
        end, before = 0, ""
        for place, match in enumerate(matches):
            if not self._is_name(text, matches, place, owners, author, own):
                continue
            name = self._called(owners[place], author)
            gap = text[end : match.start()]
            # First and last name are one person.
            if not (name == before and _GAP.fullmatch(gap) and "," not in gap):
                parts += [gap, name]
            end, before = match.end(), name
        return "".join(parts) + text[end:]

    def _is_name(
        self,
        text: str,
        matches: Sequence[re.Match[str]],
        place: int,
        owners: Sequence[Set[Student]],
        author: Student,
        own: Set[str],
    ) -> bool:
        """Return whether a word that may be a name is a name at its place in a text."""
        here, word = owners[place], matches[place][0]
        if not here:
            return False
        is_common = word.islower() and (word in _COMMON or len(word) < _SHORTEST)
        is_own = _bare(word) in own
        if not is_own and (not is_common or (author in here and word not in _CODE)):
            return True
        beside = [other for other in (place - 1, place + 1) if 0 <= other < len(matches)]
        return any(
            here & owners[other]
            and _bare(matches[other][0]) != _bare(word)
            and _GAP.fullmatch(
                text, matches[min(place, other)].end(), matches[max(place, other)].start()
            )
            for other in beside
        )

    def _called(self, owners: Set[Student], author: Student) -> str:
        if author in owners:
            return self.names[author]
        return min(self.names[owner] for owner in owners)


def read_key(path: Path) -> bytes:
    """Return the secret in a file, which is made if it is missing.

    Raises:
        UsageError: the file can neither be read nor made, or has other content.
    """
    try:
        path.parent.mkdir(exist_ok=True)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            pass
        else:
            with open(file, "w", encoding="ascii") as new:
                new.write(secrets.token_hex(_KEY // 2) + "\n")
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise UsageError(
            f"the key of pseudonyms cannot be kept in {path}: {error.strerror}"
        ) from None
    if len(text) != _KEY or not text.isalnum():
        raise UsageError(
            f"{path} does not contain the key of pseudonyms: restore a copy of the key, or "
            "remove the file to get other pseudonyms"
        )
    return text.encode()


def _pseudonym(student: Student, key: bytes) -> str:
    person = student.person
    known = (person.email or person.id or person.name) if person is not None else student.entry
    digest = hmac.digest(key, folded(known or "").encode("utf-8", "replace"), "sha256")
    return f"student_{digest.hex()[:_DIGITS]}"


@cache
def _own_words() -> frozenset[str]:
    """Return the words of the sentences in the grader's code, without capitals.

    Comments for maintainers, which have names in examples, and the lists of names here are left
    out.
    """
    folder = Path(__file__).resolve().parents[2]
    words: set[str] = set()
    for room in ("grading", "isolation", "running"):
        for path in (folder / room).rglob("*.py"):
            if path == Path(__file__).resolve():
                continue
            nodes = [*ast.walk(ast.parse(path.read_bytes()))]
            comments = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.Constant) and id(node) not in comments:
                    text = node.value if isinstance(node.value, str) else ""
                    words.update(map(_bare, _words_in(text) if " " in text else ()))
    return frozenset(words)


def _words_in(text: str) -> Iterator[str]:
    return (match[0] for match in _WORD.finditer(text))


def _bare(word: str) -> str:
    """Return a word without capitals and accents: a text about Björk may contain Bjork."""
    if word.isascii():
        return word.casefold()
    parts = unicodedata.normalize("NFKD", word.casefold())
    return "".join(char for char in parts if not unicodedata.combining(char))


def _words(student: Student) -> Iterator[str]:
    """Yield the words by which texts may name a student, without capitals."""
    entry_name = read_entry_name(student.entry or "")
    texts = [entry_name.name, entry_name.id]
    if (person := student.person) is not None:
        texts += [person.name, person.first, person.last, person.email.partition("@")[0]]
        texts += [person.id, *person.keys]
    for text in texts:
        words = [_bare(match[0]) for match in _WORD.finditer(text.partition("@")[0])]
        words = [word for word in words if word not in _NOBODYS]
        if 1 < len(words) <= 4:
            words += ["".join(words), "".join(reversed(words)), words[0][0] + words[-1]]
        for word in words:
            if len(word) >= (_SHORTEST_NUMBER if word.isdecimal() else 2) or not word.isascii():
                yield word
