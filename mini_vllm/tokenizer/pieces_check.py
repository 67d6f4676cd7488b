"""Whether a table of pieces says what the backend's own `decode` says, tried at load.

A table is made by a rule that we know for a decoder; the backend may be newer than the rule. So
the table is compared with `decode` on random sequences, and not used where they differ.

But: only well-formed sequences are compared. On ill-formed bytes some backends deviate from the
byte-exact text, and that is theirs to keep.
"""

import random
from collections.abc import Callable, Sequence

from mini_vllm.tokenizer.pieces import PieceTable

SEQUENCES = 1000
_LONGEST = 8


def agrees(
    table: PieceTable,
    decode: Callable[[list[int], bool], str],
    samples: Sequence[Sequence[int]] = (),
) -> bool:
    """Return whether table and `decode(ids, skip_special_tokens)` agree.

    Args:
        table: the table.
        decode: the backend's decoding of a whole sequence.
        samples: id sequences with split characters; parts of them are tried, for random ids make
            few of these.
    """
    generator = random.Random(len(table.rest))
    for skip, stream in ((False, table.showing), (True, table.skipping)):
        # Whole tokens can stand anywhere, so most of the tried ids are such.
        whole = [i for i, piece in enumerate(table.rest) if piece and _is_whole(piece)]
        for number in range(SEQUENCES):
            if samples and number % 4 == 0:
                sample = generator.choice(samples)
                start = generator.randrange(len(sample) + 1)
                ids = list(sample[start : start + _LONGEST])
            else:
                ids = generator.choices(whole or [0], k=generator.randint(1, _LONGEST))
            text = stream.text(ids)
            if "\ufffd" not in text and text != decode(ids, skip):
                return False
    return True


def _is_whole(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
