"""The common mistakes of this lab, each with a probe that only this mistake answers."""

from labkit.testing import Call, mistake

BAD = "\ufffd"
LEVEL, FALLBACK = "byte_level", "byte_fallback"
FACE = (b"\xf0\x9f", b"\xab", b"\xa8")
ROCKET = (b" \xf0\x9f", b"\x9a", b"\x80")


def ids_of(lab, name, pieces):
    """Return the token of each piece; a number is an id itself."""
    known = lab.given.reader(name).ids_of
    return [
        known[one.encode() if isinstance(one, str) else one][0] if not isinstance(one, int) else one
        for one in pieces
    ]


def pushed(lab, name, *pieces, prompt=(), end=""):
    """Return the text of each token, and of the call at the end if there is one."""
    new = lab.new(
        "IncrementalDetokenizer", lab.new("given.tokenizer", name), ids_of(lab, name, prompt)
    )
    trace = lab.stream(new, ids_of(lab, name, pieces), feed="push", end=end, watch="")
    return trace.outputs


def decoded(lab, name, pieces, prompt=()):
    """Return how many ids the tokenizer has decoded after each token."""
    handle, counted = lab.new("given.tokenizer", name), Call("decoded", None, object=1)
    new = lab.new("IncrementalDetokenizer", handle, ids_of(lab, name, prompt))
    calls = [call for one in ids_of(lab, name, pieces) for call in (("push", one), counted)]
    return lab.script([new, handle], calls, watch="").outputs[1::2]


def bytes_of(text):
    """Return the bytes of a text, each alone."""
    return [bytes([byte]) for byte in text.encode()]


@mistake(task=1)
def none_for_nothing(lab):
    """`push` returns None.

    A path through `push` that ends without `return` returns None. Return `""` there.
    """
    without_text = pushed(lab, FALLBACK, " ", -1)
    return None in [*pushed(lab, LEVEL, "a", " the"), *without_text]


@mistake(task=1)
def same_text_always(lab):
    """`push` returns the same text for every token.

    The text depends on the token: `decode` of the tokenizer shows it.
    """
    first, *others = pushed(lab, LEVEL, "a", " the", "!")
    return first != "" and others == [first] * 2


@mistake(task=1)
def text_of_another_tokenizer(lab):
    """A token has the text that another tokenizer gives its id.

    In a process with two tokenizers, an id has two texts. Which texts do you store outside of the
    stream, and is the tokenizer a part of their key?
    """
    # An id that no other probe and no test uses.
    unknown = [b""] * 4_000
    outputs = [
        lab.stream(
            lab.new("IncrementalDetokenizer", lab.new("given.Pieces", [*unknown, text]), []),
            [4_000], feed="push", end="", watch="",
        ).outputs
        for text in (b"one", b"two")
    ]  # fmt: skip
    return outputs == [["one"], ["one"]]


@mistake(task=1)
def says_nothing(lab):
    """`push` returns `""` for every token, even for a word.

    Begin with tokens of whole characters: their text is certain at once.
    """
    return pushed(lab, FALLBACK, " a", " the", "!", " a", " the", "!") == [""] * 6


@mistake(task=1)
def one_late(lab):
    """Every token's text is emitted with the token after it.

    When a token arrives, is only the text of the tokens before it certain, or also its own?
    """
    return pushed(lab, LEVEL, "a", " the", "!") == ["", "a", " the"]


@mistake(task=1)
def holds_a_word(lab):
    """A token of whole characters is held, for example until a space follows.

    Whole characters are certain at once. Only a U+FFFD at the end of the text may still change.
    """
    outputs = pushed(lab, LEVEL, "a", " the", "!")
    return outputs[0] == "" and "".join(outputs) in ("a", "a ", "a the")


@mistake(task=1)
def everything_so_far(lab):
    """`push` returns all text so far instead of the text that the token adds.

    Emitted text must not be emitted again. How long was the text without this token?
    """
    return pushed(lab, LEVEL, "a", " the", "!") == ["a", "a the", "a the!"]


@mistake(task=1)
def token_alone(lab):
    """Every token is decoded without those before it: words lose their spaces.

    Decode " Hello" and " world" in one call, and each alone: what differs? Only the difference
    between two texts shows the text that a token adds.
    """
    return pushed(lab, FALLBACK, " a", " the", "!") == ["a", "the", "!"]


@mistake(task=1)
def tokens_for_characters(lab):
    """Text is cut by the number of tokens instead of by the number of characters.

    A token may be many characters, one, or none. Decode the tokens before it, and take the length
    of their text.
    """
    return pushed(lab, LEVEL, " the", "!") == [" the", "the!"]


@mistake(task=1)
def spelled_not_decoded(lab):
    """Tokens are emitted as the vocabulary spells them, with Ġ or ▁ for a space.

    A vocabulary's spelling is for machines. The text is the result of `decode`.
    """
    return pushed(lab, LEVEL, "a", " the") == ["a", "Ġthe"]


@mistake(task=1)
def space_has_no_text(lab):
    """A space is lost: a token that is empty only at the start of a text counts as an id without
    text.

    `decode` takes the first space away. Ask for the text of the token twice in a row, or compare
    with the text before it.
    """
    return pushed(lab, FALLBACK, " ", " ") == ["", ""]


@mistake(task=1)
def empty_tokens_count(lab):
    """After some ids without text the next word has lost its space.

    The word keeps its space as long as the window has text before it. Which ids need not be in the
    window at all?
    """
    return (
        pushed(lab, FALLBACK, " a", " the") == ["a", " the"]
        and pushed(lab, FALLBACK, " a", *[-1] * 50, " the")[-1] == "the"
    )


@mistake(task=1)
def skips_specials(lab):
    """A special token gives `""` in mid-stream.

    `decode` shows special tokens here. If you skip some tokens and not others, you compare two
    unrelated texts.
    """
    special = max(lab.given.reader(LEVEL).special)
    return pushed(lab, LEVEL, " a", special, "!") == [" a", "", "!"]


@mistake(task=1)
def cleans_spaces(lab):
    """Two spaces are emitted as one.

    Emitted text cannot be cleaned up, and held text must not be: emit it as `decode` shows it.
    """
    return pushed(lab, LEVEL, " a", "  ", "a") == [" a", " ", "a"]


@mistake(task=1)
def decode_all(lab):
    """Each token costs more than the one before: all of the stream is decoded again.

    Which of the earlier tokens does the next one need? Drop those whose text has been emitted,
    except the last ones.
    """
    counts = decoded(lab, LEVEL, ["a"] * 200)
    return counts[-1] - counts[-2] > 150


@mistake(task=2)
def none_while_held(lab):
    """`push` returns None while a character is unfinished.

    A path through `push` that ends without `return` returns None. Return `""` there.
    """
    return None in pushed(lab, LEVEL, "a", *FACE)


@mistake(task=2)
def no_guard(lab):
    """A face in three tokens is U+FFFD and then nothing.

    The text has one character after the third token, and had one before it: the difference is
    empty. If the text ends in U+FFFD, is its last character certain?
    """
    outputs = pushed(lab, LEVEL, *FACE)
    whole = pushed(lab, LEVEL, "a", " the") == ["a", " the"]
    return whole and outputs[0] == BAD and "\U0001fae8" not in "".join(outputs)


@mistake(task=2)
def one_replacement(lab):
    """Half a character is shown as two U+FFFD, and one of them is emitted.

    A tokenizer with byte fallback shows one for each byte. How many U+FFFD may the text end in?
    """
    return pushed(lab, FALLBACK, *bytes_of("你"))[:2] == ["", BAD]


@mistake(task=2)
def deletes_replacements(lab):
    """U+FFFD is never emitted, even if the model wrote one.

    It may be the model's own. Do not delete it: hold it until the tokens after it decide.
    """
    outputs = pushed(lab, LEVEL, "a", *bytes_of(BAD), " the", "!", end="flush")
    return "".join(outputs) == "a the!"


@mistake(task=2)
def holds_the_whole_token(lab):
    """A space is held, because half an emoji follows it in the same token.

    Only the end of the text is unfinished. Emit the text before the U+FFFD at the end.
    """
    return pushed(lab, LEVEL, "a", *ROCKET) == ["a", "", "", " 🚀"]


@mistake(task=2)
def sends_twice(lab):
    """The space before an emoji is emitted with the emoji's first token, and once more.

    If you emit text of a token that you still hold, remember how much, until the token is done.
    """
    outputs = pushed(lab, LEVEL, "a", *ROCKET)
    return outputs[1] == " " and "".join(outputs).count(" ") > 1


@mistake(task=2)
def settles_too_much(lab):
    """Half a character is emitted, because many tokens are held before it.

    If four tokens are held, the oldest is certain, and the last three may not be. Where does the
    unfinished character begin?
    """
    outputs = pushed(lab, LEVEL, "a", *bytes_of(f"{BAD}🚀"), "!")
    return pushed(lab, LEVEL, *FACE)[-1] == "\U0001fae8" and "".join(outputs).count(BAD) > 1


@mistake(task=2)
def waits_for_ever(lab):
    """Bytes that complete no character are never emitted, however many they are.

    How many tokens can an unfinished character have? Older tokens are certain.
    """
    return pushed(lab, FALLBACK, *[b"\xff"] * 40) == [""] * 40


@mistake(task=2)
def waits_too_long(lab):
    """A U+FFFD that the model wrote is held for more than three further tokens of text.

    How many tokens can an unfinished character have? With one token more, the oldest is certain.
    """
    outputs = pushed(lab, LEVEL, *bytes_of(BAD * 3), "!")
    return "".join(outputs[:6]) == "" and "".join(outputs) == BAD * 3 + "!"


@mistake(task=3)
def no_context(lab):
    """The prompt has no effect: the output is decoded as if it were the start of the text.

    A character that the prompt has begun is then lost, and so is the space of the first word. Let
    the window begin with tokens of the prompt, and treat their text as emitted.
    """
    return pushed(lab, FALLBACK, " a", " the", prompt=[" the"]) == ["a", " the"]


@mistake(task=3)
def repeats_the_prompt(lab):
    """The prompt's text is emitted with the first token.

    The reader has the prompt. How long is its text, before the first token?
    """
    return pushed(lab, LEVEL, " a", prompt=["Hello"[:1], " the"])[0].endswith(" the a")


@mistake(task=3)
def drops_the_prompts_character(lab):
    """A character that the prompt has begun is never emitted.

    Tokens that are unfinished at the end of the prompt are held for the output. Their U+FFFD does
    not count as emitted text.
    """
    prompt = ["a", b"\xe4", b"\xbd"]
    first, then = pushed(lab, LEVEL, b"\xa0", "a", prompt=prompt)
    whole = pushed(lab, LEVEL, *prompt, b"\xa0")[-1] == "你"
    return whole and (first, then) in (("", "a"), (BAD, "a"), ("", BAD + "a"))


@mistake(task=3)
def prompt_window_cuts(lab):
    """A U+FFFD of the prompt is emitted: the window of its last tokens begins inside a character.

    Begin the window at the beginning of a character. Try a few beginnings: which of the texts has
    no U+FFFD?
    """
    ends = [[*bytes_of("🙂" * 3), *["a"] * count, b"\xe4", b"\xbd"] for count in range(4)]
    cut = [pushed(lab, LEVEL, b"\xa0", prompt=prompt) == [BAD + "你"] for prompt in ends]
    return any(cut) and pushed(lab, LEVEL, b"\xa0", prompt=[b"\xe4", b"\xbd"]) == ["你"]


@mistake(task=3)
def whole_prompt(lab):
    """The whole prompt is decoded before the first token.

    Its last few tokens are enough. A prompt may have a million.
    """
    return decoded(lab, LEVEL, ["a"], prompt=["a"] * 2_000)[0] >= 2_000


@mistake(task=4)
def starts_inside(lab):
    """After a prompt of many single bytes, text is lost or spoiled.

    Your window begins a fixed number of tokens before the end, perhaps inside a character. A
    tokenizer with byte fallback then shows the whole run as U+FFFD. Try a few beginnings: which of
    the texts has no U+FFFD?
    """
    right = pushed(lab, FALLBACK, " a", prompt=[" the"]) == [" a"]
    data = [[*bytes_of("你🚀" * 3 + one)] for one in "éü"] + [[*bytes_of("你" * 6 + "🚀")]]
    cuts = [(one[:-left], one[-left:]) for one in data for left in (1, 2, 3)]
    spoiled = [
        BAD in "".join(pushed(lab, FALLBACK, *rest, prompt=prompt))
        or pushed(lab, FALLBACK, *rest, prompt=prompt)[-1] == ""
        for prompt, rest in cuts
    ]
    return right and any(spoiled)


@mistake(task=4)
def no_flush(lab):
    """`flush` gives nothing, though half a character is held.

    The rest of it will not arrive any more. What does `decode` show for the held tokens?
    """
    return pushed(lab, LEVEL, "a", b"\xf0", end="flush") == ["a", "", ""]


@mistake(task=4)
def flush_goes_on(lab):
    """After `flush` a token gives text again.

    A stream ends once. Remember that it has ended.
    """
    calls = [*(("push", one) for one in ids_of(lab, LEVEL, ["a", b"\xf0"])), ("flush",)]
    calls += [("push", one) for one in ids_of(lab, LEVEL, ["a", " the"])]
    new = lab.new("IncrementalDetokenizer", lab.new("given.tokenizer", LEVEL), [])
    outputs = lab.script(new, calls, watch="").outputs
    return outputs[:3] == ["a", "", BAD] and outputs[-1] == " the"


@mistake(task=4)
def flush_repeats(lab):
    """A second `flush` gives the same text as the first.

    Emitted text is no longer held, after `flush` too.
    """
    new = lab.new("IncrementalDetokenizer", lab.new("given.tokenizer", LEVEL), [])
    calls = [("push", *ids_of(lab, LEVEL, [b"\xf0"])), ("flush",), ("flush",)]
    return lab.script(new, calls, watch="").outputs == ["", BAD, BAD]
