"""Hidden tests of lab-02: the same rules on texts and ids that the students' tests do not have."""

import pytest
from test_lab import SPECIAL, shown

from labkit.testing import decoded, expect, expect_in


@pytest.mark.task(1)
@pytest.mark.points(3)
@pytest.mark.varies("test_encode_is_utf8_bytes")
@pytest.mark.visibility("after_due_date")
def test_hidden_scripts(lab):
    new = lab.new("ByteTokenizer")
    for text in ("Ελλάδα", "日本語テキスト", "\U0010ffff", "ß\u200d🏴‍☠️"):
        expect(lab.call(new, "encode", text), list(text.encode()), f"encode({text!r})")


@pytest.mark.task(4)
@pytest.mark.points(2)
@pytest.mark.varies("test_token_bytes_rejects_unknown_ids")
def test_hidden_unknown_ids(lab):
    new = lab.new("ByteTokenizer")
    for token_id in (260, -259, 10**20):
        message = lab.rejects(new, "token_bytes", token_id)
        expect_in(str(token_id), message, f"token_bytes({token_id})")


@pytest.mark.task(3)
@pytest.mark.points(4)
@pytest.mark.varies("test_property_specials_anywhere")
def test_hidden_specials_anywhere(lab):
    new = lab.new("ByteTokenizer")
    for length in range(1, 60):
        ids = lab.random.choices([*bytes.fromhex("e4 bd a0 c3 a9 f3 7f"), *SPECIAL], k=length)
        data = bytes(token_id for token_id in ids if token_id < 256)
        expect(lab.call(new, "decode", ids), decoded(data), f"decode({ids})")
        got = lab.call(new, "decode", ids, skip_special_tokens=False)
        expect(got, shown(ids), f"decode({ids}, skip_special_tokens=False)")
