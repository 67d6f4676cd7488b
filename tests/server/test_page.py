"""The page for people, in Chromium: what it shows is what the server said, and nothing is lost."""

import json
import urllib.request
from contextlib import nullcontext
from urllib.parse import urlsplit

import pytest
from page_stub import (
    ANSWERS,
    ARGUMENTS,
    EXAMPLES,
    FULL,
    GREETING,
    SECONDS,
    Page,
    labs_with_an_echo,
    page_server,
)

from labkit.course.lab import ROLES


def test_a_rocket_is_shown_exactly_to_the_naive_as_diamonds_and_on_the_wire_as_it_came(stage):
    assert stage.ask("rocket") == "Finished"
    assert stage.text("#answer .content") == ANSWERS["rocket"]
    assert stage.texts("#answer > *") == [ANSWERS["rocket"]]
    assert stage.text("#finish .finish-reason") == "stop"
    assert "in the answer" in stage.text("#finish .usage")
    assert stage.text("#naive") == "To the ����!<eos>"
    assert stage.text("#naive-count").startswith("4 ×")
    assert "�" not in stage.text("#answer")
    *frames, done = stage.texts("#raw p")
    assert done == "data: [DONE]"
    told = [json.loads(frame.removeprefix("data: ")).get("mini_vllm", {}) for frame in frames]
    ids = [one for report in told for one in report.get("token_ids", [])]
    assert ids == [*ANSWERS["rocket"].encode(), 257]


def test_shows_what_the_api_answers(page):
    settings = {"temperature": 0, "seed": 1, "max_tokens": 60}
    body = {"messages": [{"role": "user", "content": "Hello!"}], **settings}
    url = urlsplit(page.driver.current_url)
    request = urllib.request.Request(
        f"{url.scheme}://{url.netloc}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        message = json.load(response)["choices"][0]["message"]
    for name, value in settings.items():
        page.fill(name, str(value))
    assert page.ask("Hello!") == "Finished"
    assert page.text("#answer .content") == message["content"] != ""


def test_data_is_never_markup(stage):
    stage.ask("markup")
    assert stage.text("#answer .content") == ANSWERS["markup"]
    assert stage.texts("#answer img, #answer b, #timeline img, #raw img, #naive b") == []
    assert "gone" not in stage.driver.title


def test_shows_reasoning_and_a_call_with_its_own_characters_and_a_row_for_each_token(stage):
    assert stage.ask("weather", tools=True) == "Finished"
    assert stage.text("#answer .reasoning") == "They want the weather."
    assert stage.text("#answer .content") == "I shall look. "
    assert stage.text(".call .name") == "get_weather"
    assert stage.text(".call .arguments") == ARGUMENTS
    assert stage.text(".call .id").startswith("call_")
    assert stage.text("#finish .finish-reason") == "tool_calls"
    ids = [int(text) for text in stage.texts("#timeline .token")]
    assert ids == [*ANSWERS["weather"].encode(), 257]
    said = "They want the weather.I shall look. get_weather" + ARGUMENTS
    assert "".join(stage.texts("#timeline .out")) == said.replace(" ", "␣")


def test_arguments_grow(stage):
    seen = "<think>They want the weather.</think>I shall look. "
    until = seen + '<tool_call>\n{"name": "get_weather", "arguments": {"city":  '
    stage.paused_at("weather", len(until), tools=True)
    assert stage.text(".call .arguments").rstrip() == '{"city":'
    assert stage.text(".call .name") == "get_weather"


def test_shows_the_bytes_of_an_open_character(stage):
    stage.paused_at("rocket", len(b"To the ") + 2)
    assert stage.held("tokens") == "f0 9f"
    assert stage.text("#answer .content") == "To the "
    assert stage.text("#naive") == "To the ��"
    assert stage.texts("#timeline tr:last-child td") == ["159", "�", "", "tokens: f0 9f "]
    stage.press(stage.keys.F9 * 2)
    assert stage.held("tokens") == ""
    assert stage.text("#answer .content") == "To the 🚀"
    assert stage.texts("#emitted td") == ["🚀", "8 in all"]


@pytest.mark.parametrize(
    ("layers", "stop", "make_text_path"),
    [
        ("tokens stops reasoning calls", "stops", None),
        ("echo tokens stops pipeline channel", "stops", labs_with_an_echo),
    ],
    ids=["engine", "labs"],
)
def test_shows_what_each_layer_holds_that_the_server_reports(
    driver, scripted, layers, stop, make_text_path
):
    """The second server runs the labs, in front of them a layer of which the page knows nothing."""
    labs = make_text_path and page_server(make_text_path=make_text_path)
    with labs or nullcontext(scripted) as server:
        stage = Page(driver, server.url)
        stage.fill("stop", "END")
        stage.paused_at("until the end", len("Not the EN"))
        names = layers.split()
        assert stage.layers() == names
        assert stage.texts(f"#held [data-layer={stop}] td") == ["EN", "2", "2"]
        assert stage.text(f"#held [data-layer={stop}] small") == "a possible stop string"
        last = stage.text("#timeline tr:last-child td:last-child")
        assert last.split()[-2:] == [f"{stop}:", "EN"]
        if "echo" in names:
            assert stage.text("#held [data-layer=echo] th") == "echo"
            assert stage.texts("#held [data-layer=echo] td") == ["00 0a ff", "3", "3"]
            # Text of later tokens, so it is in this table only.
            assert stage.texts("#held [data-layer=channel] td") == ["later", "5", "5"]
            assert "channel" not in " ".join(stage.texts("#timeline .held"))
        assert stage.text("#answer .content") == "Not the "
        stage.press(stage.keys.F8)
        assert stage.end() == "Finished"
        assert stage.text("#answer .content") == "Not the EN, but the "
        assert stage.texts(f"#held [data-layer={stop}] td") == ["", "0", "2"]


def test_shows_every_layer_that_the_labs_have_and_what_their_frames_say_as_if_it_were_ours(
    driver, labs
):
    stage = Page(driver, labs.url)
    assert stage.ask("weather", tools=True) == "Finished"
    assert stage.layers() == list(ROLES)
    notes = ["".join(stage.texts(f"#held [data-layer={role}] small")) for role in ROLES]
    assert all(notes), notes
    ids = [int(text) for text in stage.texts("#timeline .token")]
    assert ids == [*ANSWERS["weather"].encode(), 257]
    said = "They want the weather.I shall look. get_weather" + ARGUMENTS
    assert "".join(stage.texts("#timeline .out")) == said.replace(" ", "␣")


def test_boxes_follow_their_end(stage):
    stage.pace(5)
    stage.ask("until the end")
    below = stage.js(
        "const box = $('raw').parentElement; return $('raw').lastElementChild"
        ".getBoundingClientRect().bottom - box.getBoundingClientRect().bottom"
    )
    assert stage.js("return $('raw').offsetHeight > 2 * $('raw').parentElement.offsetHeight")
    assert below < 1


# How it is paced and stopped


def test_a_pause_shows_nothing_and_play_all(stage):
    stage.paused_at("rocket", 1)
    assert stage.text("#answer .content") == "T"
    # The event of the role, the usage and the end have no token, and are not counted.
    left = len(ANSWERS["rocket"].encode())
    stage.until(f"return $('progress').textContent === '1 token, {left} waiting'")
    stage["pause"].click()
    assert stage.end() == "Finished"
    assert stage.text("#answer .content") == ANSWERS["rocket"]


def test_a_slow_pace_shows_tokens_one_by_one(stage):
    # The page's time passes only while it waits, so it does not matter how busy the machine is.
    stage.js(
        "let now = performance.now(); window.seen = []; window.began = now;"
        "performance.now = () => now; const wait = window.setTimeout;"
        "window.setTimeout = (call, ms) => wait(() => { now += ms; call(); }, 0);"
        "new MutationObserver(() => seen.push($('progress').textContent))"
        ".observe($('progress'), {childList: true})"
    )
    stage.pace(1000)
    stage.ask("rocket")
    counts = [int(text.split()[0]) for text in stage.js("return seen") if "token" in text]
    tokens = len(ANSWERS["rocket"].encode()) + 1
    assert list(dict.fromkeys(counts)) == list(range(1, tokens + 1))
    assert (tokens - 1) * 1000 <= stage.js("return performance.now() - began") <= tokens * 1000


def test_escape_aborts_and_the_engine_sees_it(stage, model):
    stage.send("waits")
    stage.until("return $('answer').textContent === 'A token'")
    assert not model.released.is_set()
    # What is read out is read when it is done.
    assert stage["answer"].get_attribute("aria-live") == "polite"
    assert stage["answer"].get_attribute("aria-busy") == "true"
    stage.press(stage.keys.ESCAPE)
    assert stage["answer"].get_attribute("aria-busy") == "false"
    assert model.released.wait(SECONDS)
    assert stage.end() == "Stopped"
    assert stage.text("#answer") == "A token"
    assert stage["stop-button"].get_attribute("aria-disabled") == "true"
    assert stage["alert"].text == ""


def test_escape_forgets_what_waits(stage):
    stage.paused_at("rocket", 1)
    stage.press(stage.keys.ESCAPE)
    stage.press(stage.keys.F8)
    assert stage.end() == "Stopped"
    assert stage["progress"].text == "1 token"
    assert stage.text("#answer") == "T"


def test_a_new_prompt_aborts_the_old_one(stage):
    stage.send("waits")
    stage.until("return $('answer').textContent === 'A token'")
    assert stage.ask("rocket") == "Finished"
    assert stage.texts("#answer > *") == [ANSWERS["rocket"]]


# What goes wrong


def test_a_refusal_names_the_field(page):
    page.fill("max_tokens", "0")
    assert page.ask("Hello!") == "Failed"
    assert page["alert"].text.startswith("400: ")
    assert page["max_tokens"].get_attribute("aria-invalid") == "true"
    assert page.driver.switch_to.active_element == page["max_tokens"]
    page.fill("max_tokens", "5")
    page.ask("Hello!")
    assert page["alert"].text == ""
    assert page["max_tokens"].get_attribute("aria-invalid") is None


def test_a_full_server_says_so(stage, scripted, model):
    others = [scripted.begun("waits") for _ in range(FULL)]
    try:
        assert stage.ask("rocket") == "Failed"
        assert stage["alert"].text.startswith("429: ")
    finally:
        for other in others:
            other.socket.close()
    assert model.released.wait(SECONDS)


def test_tools_that_are_no_json_are_not_sent(page):
    page["use-tools"].click()
    page.fill("tools", "[{")
    page.send("Hello!", tools=True)
    assert page.end() == "Failed"
    assert page["alert"].text.startswith("The tools are not JSON")
    assert page.driver.switch_to.active_element == page["tools"]


def test_an_error_in_the_stream_keeps_what_was_said(stage):
    assert stage.ask("breaks") == "Failed"
    assert stage.text("#answer") == ANSWERS["breaks"]
    assert stage["alert"].text != ""


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('data: {"choices": []}\n\n', "The stream broke off before its end"),
        ('data: {"choices": []}\n\ndata: [DO', "The stream broke off before its end"),
        ("data: {\n\ndata: [DONE]\n\n", "An event of the stream is not JSON"),
        (None, "The server cannot be reached: no way"),
    ],
)
def test_a_broken_stream_is_an_error(stage, body, says):
    reply = "Promise.reject(new TypeError('no way'))" if body is None else "new Response(body)"
    stage.js(f"const body = arguments[0]; window.fetch = async () => {reply}", body)
    assert stage.ask("rocket") == "Failed"
    assert stage["alert"].text == says


def test_an_api_key_is_asked_for(driver):
    with page_server(api_key="sesame") as server:
        page = Page(driver, server.url)
        assert page["alert"].text.startswith("401: ")
        page["key"].send_keys("sesame", page.keys.TAB)
        page.until("return $('model').value === 'scripted' && $('alert').textContent === ''")
        assert page.ask("rocket") == "Finished"


# Whom it lets in, and whom out


def test_asks_nobody_but_its_server_and_its_policy_allows_no_other(page):
    page.ask("Hello!")
    host = urlsplit(page.driver.current_url).netloc
    sent = [json.loads(entry["message"])["message"] for entry in page.driver.get_log("performance")]
    urls = [
        message["params"]["request"]["url"]
        for message in sent
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert len(urls) > 5
    assert {urlsplit(url).netloc for url in urls} == {host}
    with urllib.request.urlopen(page.driver.current_url, timeout=SECONDS) as response:
        policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.driver.get_log("browser") == []


def test_an_example_is_one_press_away(page):
    example = page.driver.find_element("css selector", "[data-tools]")
    example.send_keys(page.keys.ENTER)
    assert page.end() == "Finished"
    assert page["prompt"].get_attribute("value") == example.get_attribute("data-prompt")
    assert page["use-tools"].is_selected()


def test_a_call_is_shown_and_played_in_any_format(stage):
    stage["saying"].click()
    for format in ("kimi_k2", "glm45"):
        stage["tool_format"].send_keys(format)
        assert stage["say"].get_attribute("value") == EXAMPLES[format]
        stage["play"].click()
        assert stage.end() == "Finished"
        assert stage.text(".call .name") == "get_weather"
        assert json.loads(stage.text(".call .arguments")) == {"city": "Paris"}
        assert stage.text("#naive").removesuffix("<eos>").strip() == EXAMPLES[format].strip()


def test_a_character_without_a_picture_is_named_in_the_table(stage):
    """A zero-width joiner is emitted: an empty cell would say that nothing is."""
    stage.driver.find_element("css selector", ".examples button").click()
    assert stage.end() == "Finished"
    # It is the first example, so it has to show that something is held.
    assert "tokens: f0 9f " in stage.texts("#timeline .held")
    emitted = [text for text in stage.texts("#timeline .out") if text]
    assert "".join(emitted).endswith("👩U+200D👩U+200D👧")
    assert emitted.count("U+200D") == 2
    assert stage.text("#answer .content").endswith("👩\u200d👩\u200d👧")


@pytest.mark.parametrize(
    ("example", "selector", "shown"),
    [
        ("Emoji and 你好", "#answer .content", "你好! 🚀"),
        ("A stop string", "#answer .content", "fifty (no!), "),
        ("A stop string", "#finish", 'stop · stopped by "five"'),
        ("Reasoning", "#answer .reasoning", "3 is 21."),
        ("Reasoning", "#answer .content", "It is 51."),
        (
            "Broken bytes",
            "#answer .content",
            "emoji: \ufffd, a stray byte: \ufffd, and a whole one: 🚀",
        ),
    ],
)
def test_an_example_shows_what_it_says(stage, example, selector, shown):
    stage.driver.find_element("xpath", f"//button[text()='{example}']").click()
    assert stage.end() == "Finished"
    assert shown in stage.text(selector)


def test_the_example_of_a_stop_holds_its_first_letters(stage):
    stage.driver.find_element("xpath", "//button[text()='A stop string']").click()
    assert stage.end() == "Finished"
    held = stage.texts("#timeline .held")
    assert held[-4:] == ["stops: f ", "stops: fi ", "stops: fiv ", ""]
    assert "five" not in stage.text("#answer")


def test_what_is_in_the_box_is_said_and_a_refusal_marks_it(stage):
    stage["saying"].click()
    stage.fill("say", r"A 🚀\xff")
    stage["say"].send_keys(stage.keys.CONTROL + stage.keys.ENTER)
    assert stage.end() == "Finished"
    assert stage.text("#answer .content") == "A 🚀\ufffd"
    stage.js("$('say').value = 'a'.repeat(20001)")
    stage["play"].click()
    assert stage.end() == "Failed"
    assert "at most 20,000 are allowed" in stage["alert"].text
    assert stage["say"].get_attribute("aria-invalid") == "true"


def test_whose_code_runs_is_shown_and_where_nothing_can_be_said_there_is_nothing_to_choose(driver):
    with page_server(can_say=False, note="tokens  yours\nstops  the engine's") as server:
        page = Page(driver, server.url)
        assert page["whose"].text == "tokens yours\nstops the engine's"
        hidden = ["#saying", "[data-needs-say]"]
        assert page.js("return arguments[0].map((s) => document.querySelector(s).hidden)", hidden)


PANELS = "return [...document.querySelectorAll('.panels section')].map((e) => e.innerText)"


def test_one_can_go_back_and_on_and_sees_the_same(stage):
    stage.fill("stop", "END")
    stage.paused_at(GREETING, 3, tools=True)
    third = stage.js(PANELS)
    assert stage["status"].text == "Paused"
    stage.press(stage.keys.F9 * 40 + stage.keys.F7 * 40)
    assert stage.js(PANELS) == third
    stage["pause"].click()
    assert stage.end() == "Finished"
    last = stage.js(PANELS)
    seek = "$('seek').value = arguments[0]; $('seek').dispatchEvent(new Event('input'))"
    stage.js(seek, 3)
    assert stage["status"].text == "Paused"
    assert stage["progress"].text.startswith("3 tokens, ")
    # What came with the third token came before the fourth.
    assert stage.js(PANELS)[:-1] == third[:-1]
    stage["back"].click()
    assert stage["progress"].text.startswith("2 tokens, ")
    stage.js(seek, 9999)
    assert stage["status"].text == "Finished"
    assert stage.js(PANELS) == last
    assert stage["alert"].text == ""


def test_states_have_colours_of_their_own(stage):
    def seen():
        color = "return getComputedStyle($('status')).color"
        return stage["status"].text, stage.js(color)

    stage.paused_at("rocket", 1)
    paused = seen()
    stage["pause"].click()
    stage.end()
    finished = seen()
    stage.ask("breaks")
    states, colors = zip(paused, finished, seen(), strict=True)
    assert states == ("Paused", "Finished", "Failed")
    assert len({*colors}) == 3


def test_a_layer_that_has_nothing_to_do_says_why(stage):
    stage.ask("rocket")
    assert stage.held("stops") == "no stop strings given"
    assert stage.held("calls") == "no tools offered"
    stage.fill("stop", "END")
    stage.ask("rocket", tools=True)
    assert (stage.held("stops"), stage.held("calls")) == ("", "")


# The reader of server-sent events

STREAM = (
    b"\xef\xbb\xbf: hi\r\n\r\ndata: a\xf0\x9f\x9a\x80\r\n\r\ndata:b\ndata\ndata:  c\rid: 1\n\n"
    b"\n\r\rdatax: no\nevent: e\n\ndata: \xc3\r\r\ndata: x\r\ndata: y\r\n\ndata: z\n\ndata: cut"
)
EVENTS = [
    [None, [": hi"]],
    ["a🚀", ["data: a🚀"]],
    ["b\n\n c", ["data:b", "data", "data:  c", "id: 1"]],
    [None, ["datax: no", "event: e"]],
    ["�", ["data: �"]],
    ["x\ny", ["data: x", "data: y"]],
    ["z", ["data: z"]],
]
READ = """
const [stream, done] = [new Uint8Array(arguments[0]), arguments[arguments.length - 1]];
import("/page/sse.js").then(({ SseReader }) => {
  const results = new Map();
  for (let i = 0; i <= stream.length; i++) for (let j = i; j <= stream.length; j++) {
    const reader = new SseReader();
    const events = [stream.slice(0, i), stream.slice(i, j), stream.slice(j)]
      .flatMap((piece) => reader.feed(piece)).map(({ data, lines }) => [data, lines]);
    const result = JSON.stringify([events, reader.flush(), reader.flush()]);
    results.set(result, [i, j]);
  }
  done([...results].map(([result, cut]) => [JSON.parse(result), cut]));
}, (error) => done(String(error)));
"""
EAGER = """
const done = arguments[arguments.length - 1];
import("/page/sse.js").then(({ SseReader }) => {
  const reader = new SseReader(), bytes = (text) => new TextEncoder().encode(text);
  done(arguments[0].map((piece) => reader.feed(bytes(piece)).map(({ data }) => data)));
});
"""


def test_reads_the_same_events_however_they_are_cut(page):
    assert page.driver.execute_async_script(READ, list(STREAM)) == [
        [[EVENTS, ["data: cut"], []], [len(STREAM)] * 2]
    ]


def test_an_event_is_read_as_soon_as_its_blank_line_is(page):
    pieces = ["data: a\r\n\r", "\ndata: b\n\n", "data: c\r\r", "data: d\n", "\n"]
    read = page.driver.execute_async_script(EAGER, pieces)
    assert read == [["a"], ["b"], ["c"], [], ["d"]]


SCRAPES = """
const [text, resolve] = arguments;
import("/page/dashboard.js").then(({ readScrape, linesOf }) => {
  const scrapes = text.map((each, index) => readScrape(each, 1000 * 2 * index));
  resolve([scrapes[0], linesOf(scrapes)]);
});
"""


def metrics(tokens, first, count, held):
    return "\n".join([
        "# HELP vllm:generation_tokens_total Tokens generated",
        f'vllm:generation_tokens_total{{engine="0",model_name="a}} \\" {{b"}} {tokens}.0',
        f'vllm:time_to_first_token_seconds_sum{{engine="0"}} {first}',
        f'vllm:time_to_first_token_seconds_count{{engine="0"}} {count}',
        'vllm:num_requests_running{engine="0"} 3.0',
        'vllm:num_requests_waiting{engine="0"} 1.0',
        f'mini_vllm:held_characters{{layer="stops"}} {held}',
    ])  # fmt: skip


def test_the_dashboard_draws_rates_between_two_scrapes(page):
    texts = [metrics(10, 0.5, 2, 4), metrics(30, 0.9, 4, 0), metrics(30, 0.9, 4, 7)]
    # The server was restarted, so it counts from 0 again.
    texts.append(metrics(8, 0.1, 1, 0))
    page.driver.set_script_timeout(SECONDS)
    first, lines = page.driver.execute_async_script(SCRAPES, texts)
    assert (first["tokens"], first["running"], first["held"]) == (10, 3, {"stops": 4})
    assert lines["tokens"]["tokens/s"] == [[2000, 10], [4000, 0], [6000, 4]]
    # Between the second and the third scrape no request got a first token.
    assert lines["first"]["ms"] == [[2000, pytest.approx(200)], [6000, pytest.approx(100)]]
    assert lines["held"]["stops"] == [[0, 4], [2000, 0], [4000, 7], [6000, 0]]
    assert lines["slots"]["waiting"] == [[0, 1], [2000, 1], [4000, 1], [6000, 1]]


SLOTS = "document.querySelector('[data-chart=slots] .keys').textContent"


def test_the_open_dashboard_shows_the_servers_numbers(stage):
    stage["dashboard"].find_element("css selector", "summary").click()
    stage.until(f"return {SLOTS}.includes('running 0')")
    assert stage.ask("rocket") == "Finished"
    stage.until("return document.querySelector('[data-chart=tokens] polyline').points.length > 0")
    assert "tokens/s" in stage.text("[data-chart=tokens] .keys")


def test_the_dashboard_says_why_it_is_empty(driver):
    with page_server(api_key="secret") as server:
        page = Page(driver, server.url)
        page["dashboard"].find_element("css selector", "summary").click()
        problem = "document.querySelector('#dashboard .problem').textContent"
        page.until(f"return {problem} === '/metrics answers 401'")
        page.fill("key", "secret")
        page.until(f"return {SLOTS}.includes('running 0') && {problem} === ''")
