"""The common mistakes of this lab, each with a probe that only it answers."""

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
    """Return what each token gives, and the call at the end if there is one."""
    new = lab.new(
        "IncrementalDetokenizer", lab.new("given.tokenizer", name), ids_of(lab, name, prompt)
    )
    trace = lab.stream(new, ids_of(lab, name, pieces), feed="push", end=end, watch="")
    return trace.outputs


def decoded(lab, name, pieces, prompt=()):
    """Return how many ids the tokenizer has been asked to decode after each token."""
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

    A way through `push` that ends without `return` returns None. The text so far is `""`.
    """
    return None in pushed(lab, LEVEL, "a", *FACE)


@mistake(task=1)
def says_nothing(lab):
    """`push` returns `""` for every token, even for a word.

    Begin with tokens of whole characters: their text is certain at once.
    """
    return pushed(lab, FALLBACK, " a", " the", "!", " a", " the", "!") == [""] * 6


@mistake(task=1)
def one_late(lab):
    """Every token's text comes with the token after it.

    Which text is certain when a token has arrived: only that of the tokens before it, or its own,
    too?
    """
    return pushed(lab, LEVEL, "a", " the", "!") == ["", "a", " the"]


@mistake(task=1)
def everything_so_far(lab):
    """`push` returns all text so far instead of what the token adds.

    What has been returned once must not come again. How much of the text was there before?
    """
    return pushed(lab, LEVEL, "a", " the", "!") == ["a", "a the", "a the!"]


@mistake(task=1)
def token_alone(lab):
    """Every token is decoded without those before it: words lose their spaces.

    What does `decode` make of " Hello" and " world" in one call, and what of each alone? Only the
    difference between two texts tells what a token adds.
    """
    return pushed(lab, FALLBACK, " a", " the", "!") == ["a", "the", "!"]


@mistake(task=1)
def tokens_for_characters(lab):
    """Text is cut by the number of tokens instead of by the number of characters.

    A token may be many characters, one, or none. Decode what came before, and take its length.
    """
    return pushed(lab, LEVEL, " the", "!") == [" the", "the!"]


@mistake(task=1)
def spelled_not_decoded(lab):
    """Tokens come out as the vocabulary spells them, with Ġ or ▁ for a space.

    A vocabulary's spelling is for machines. What `decode` says is the text.
    """
    return pushed(lab, LEVEL, "a", " the") == ["a", "Ġthe"]


@mistake(task=1)
def empty_tokens_count(lab):
    """After some ids without text the next word has lost its space.

    The space is there as long as there is text before it in the window. Which ids need not be in
    the window at all?
    """
    return (
        pushed(lab, FALLBACK, " a", " the") == ["a", " the"]
        and pushed(lab, FALLBACK, " a", *[-1] * 50, " the")[-1] == "the"
    )


@mistake(task=1)
def skips_specials(lab):
    """A special token gives `""` in mid-stream.

    `decode` shows special tokens here. Whoever skips some tokens and not others compares two texts
    that do not belong together.
    """
    special = max(lab.given.reader(LEVEL).special)
    return pushed(lab, LEVEL, " a", special, "!") == [" a", "", "!"]


@mistake(task=1)
def cleans_spaces(lab):
    """Two spaces come out as one.

    Text that is out cannot be cleaned up, and what waits must not be: give what `decode` says.
    """
    return pushed(lab, LEVEL, " a", "  ", "a") == [" a", " ", "a"]


@mistake(task=1)
def decode_all(lab):
    """Each token costs more than the one before: all of the stream is decoded again.

    Which of the earlier tokens does the next one need? Those whose text is out, and that no
    unfinished character touches, can go, but for the last.
    """
    counts = decoded(lab, LEVEL, ["a"] * 200)
    return counts[-1] - counts[-2] > 150


@mistake(task=2)
def no_guard(lab):
    """A face in three tokens is U+FFFD and then nothing.

    At the third token there is one character, and one was there before: the difference is empty.
    What does it say of the last character if the text ends in U+FFFD?
    """
    outputs = pushed(lab, LEVEL, *FACE)
    return outputs[0] == BAD and "\U0001fae8" not in "".join(outputs)


@mistake(task=2)
def one_replacement(lab):
    """Of a character that is two U+FFFD so far, one gets out.

    A decoder with byte fallback shows one for each byte that waits. How many may stand at the end?
    """
    return pushed(lab, FALLBACK, *bytes_of("你"))[:2] == ["", BAD]


@mistake(task=2)
def deletes_replacements(lab):
    """U+FFFD never comes out, even where the model wrote one.

    It may be the model's own. Do not delete: wait, until what follows tells.
    """
    outputs = pushed(lab, LEVEL, "a", *bytes_of(BAD), " the", "!", end="flush")
    return "".join(outputs) == "a the!"


@mistake(task=2)
def holds_the_whole_token(lab):
    """A space waits, because half an emoji stands after it in the same token.

    Only the end of the text is unfinished. What stands before the last U+FFFD can go.
    """
    return pushed(lab, LEVEL, "a", *ROCKET) == ["a", "", "", " 🚀"]


@mistake(task=2)
def sends_twice(lab):
    """The space before an emoji comes with the first of its tokens, and with another one again.

    What comes out of a token that still waits must be remembered, until the token is done.
    """
    outputs = pushed(lab, LEVEL, "a", *ROCKET)
    return outputs[1] == " " and "".join(outputs).count(" ") > 1


@mistake(task=2)
def settles_too_much(lab):
    """Half a character gets out, because much has waited before it.

    With four tokens waiting, the oldest is settled, and the last three may not be. Where does the
    unfinished character begin?
    """
    outputs = pushed(lab, LEVEL, "a", *bytes_of(f"{BAD}🚀"), "!")
    return pushed(lab, LEVEL, *FACE)[-1] == "\U0001fae8" and "".join(outputs).count(BAD) > 1


@mistake(task=3)
def no_context(lab):
    """The first word after a prompt has lost its space.

    Without anything before it, `decode` takes a space away at the start. Let the window begin with
    tokens of the prompt, and let their text count as out.
    """
    return pushed(lab, FALLBACK, " a", " the", prompt=[" the"]) == ["a", " the"]


@mistake(task=3)
def repeats_the_prompt(lab):
    """The prompt's text comes out with the first token.

    The reader knows the prompt. What is the length of its text, before the first token?
    """
    return pushed(lab, LEVEL, " a", prompt=["Hello"[:1], " the"])[0].endswith(" the a")


@mistake(task=3)
def drops_the_prompts_character(lab):
    """A character that the prompt has begun never comes.

    What waits at the end of the prompt waits for the output. Its U+FFFD is no text that is out.
    """
    return pushed(lab, LEVEL, b"\xa0", "a", prompt=["a", b"\xe4", b"\xbd"])[1:] == ["a"] and pushed(
        lab, LEVEL, b"\xa0", prompt=["a", b"\xe4", b"\xbd"]
    ) in ([""], [BAD])


@mistake(task=3)
def starts_inside(lab):
    """After a prompt of many single bytes, text is lost or spoiled.

    Your window begins so many tokens before the end, which may be inside a character. A decoder
    with byte fallback then spoils the whole run. Try a few beginnings: which text has no U+FFFD?
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


@mistake(task=3)
def whole_prompt(lab):
    """The whole prompt is decoded before the first token.

    Its last few tokens are enough. A prompt may have a million.
    """
    return decoded(lab, LEVEL, ["a"], prompt=["a"] * 2_000)[0] >= 2_000


@mistake(task=4)
def no_flush(lab):
    """`flush` gives nothing, though half a character waits.

    The rest will not come any more. What does `decode` make of what is there?
    """
    return pushed(lab, LEVEL, "a", b"\xf0", end="flush") == ["a", "", ""]


@mistake(task=4)
def flush_goes_on(lab):
    """After `flush` a token gives text again.

    A stream ends once. Remember that it has.
    """
    calls = [*(("push", one) for one in ids_of(lab, LEVEL, ["a", b"\xf0"])), ("flush",)]
    calls += [("push", one) for one in ids_of(lab, LEVEL, ["a", " the"])]
    new = lab.new("IncrementalDetokenizer", lab.new("given.tokenizer", LEVEL), [])
    outputs = lab.script(new, calls, watch="").outputs
    return outputs[:3] == ["a", "", BAD] and outputs[-1] == " the"


@mistake(task=4)
def flush_repeats(lab):
    """A second `flush` gives what the first one gave.

    What is out no longer waits, after `flush` as well.
    """
    new = lab.new("IncrementalDetokenizer", lab.new("given.tokenizer", LEVEL), [])
    calls = [("push", *ids_of(lab, LEVEL, [b"\xf0"])), ("flush",), ("flush",)]
    return lab.script(new, calls, watch="").outputs == ["", BAD, BAD]


@mistake(task=4)
def waits_for_ever(lab):
    """Bytes of no character never come out, however many they are.

    How many tokens can an unfinished character have? What is older than that is settled.
    """
    return pushed(lab, FALLBACK, *[b"\xff"] * 40) == [""] * 40
