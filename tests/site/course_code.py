"""The labs' code for tests in a browser, and the same commands in a terminal."""

import os
import subprocess
import sys

from labkit.course.lab import ROOT, find_labs
from labkit.course.rows import edited

LABS = {lab.number: lab for lab in find_labs(ROOT)}
REFERENCES = {number: lab.solution.read_text("utf-8") for number, lab in LABS.items()}
BUGS = {
    bug.name: edited(REFERENCES["03"], bug.find, bug.replace, bug.name) for bug in LABS["03"].bugs
}
# What has to pass before these labs can be run where there are no references.
FIRST = {
    number: [other.number for other in LABS.values() if other.name in lab.parts.values()]
    for number, lab in LABS.items()
}
# A test of lab 03 asks for the length of what is no byte, and nothing else does.
NOT_A_BYTE = "test_utf8_expected_len_rejects_non_bytes"
_FEED = """

class StreamingDetokenizer(StreamingDetokenizer):
    def feed(self, token_id):
        {}
"""


def with_feed(body):
    """Return a lab 03 that is right but for the body of `feed`."""
    return REFERENCES["03"] + _FEED.format(body)


def where_no_byte_is(body):
    """Return a lab 03 that does something else when asked for the length of what is no byte."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return (
        f"{REFERENCES['03']}\n\n_right = utf8_expected_len\n\n\n"
        "def utf8_expected_len(first_byte):\n"
        f"    if first_byte not in range(256):\n{lines}\n"
        "    return _right(first_byte)\n"
    )


def in_terminal(root, *arguments):
    """Run a verb of labkit in a checkout; return what it prints."""
    env = {"PATH": os.environ["PATH"], "PYTHONUTF8": "1", "LAB_IMPL": "starter"}
    # The checkout's own labkit, and no other one that is installed.
    env["PYTHONPATH"] = str(root)
    command = [sys.executable, "-P", "-m", "labkit", *arguments]
    done = subprocess.run(
        command, cwd=root, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )
    return done.stdout
