"""The page as a person uses it, and a server whose model reads its answers from a script.

`python tests/server/page_stub.py` serves it for a look; its prompts are the keys of `ANSWERS`.
"""

import threading

from running import EOS, labs_path, running

from labkit.course.lab import ROOT
from labkit.serving.composed import find_composed
from labkit.serving.lab_path import LabPathFactory, LabTextPath
from labkit.serving.serve import wire_of
from mini_vllm.models.sayer import Sayer
from mini_vllm.models.scripted import Hook, ScriptedModel
from mini_vllm.models.tool_examples import read_tool_examples
from mini_vllm.tokenizer import ByteTokenizer

ARGUMENTS = '{"city":  "São Paulo", "days": [1, 2.50]}'
CALL = f'<tool_call>\n{{"name": "get_weather", "arguments": {ARGUMENTS}}}\n</tool_call>'
GREETING = "Greet me in French and Chinese, then look up the weather."
ANSWERS = {
    GREETING: f"<think>The city is in the question.</think>Bonjour, 你好! 🚀 {CALL}",
    "rocket": "To the 🚀!",
    "markup": "<img src=x onerror=\"document.title='gone'\">\n  & <b>bold</b>",
    "weather": f"<think>They want the weather.</think>I shall look. {CALL}",
    "until the end": "Not the EN, but the END of it.",
    "breaks": "So far",
    "waits": "A token",
}
EXAMPLES = read_tool_examples()
# How many requests it takes before it answers 429.
FULL = 2
SECONDS = 60


class PageModel(ScriptedModel):
    """Gives the answer whose key is in the prompt. `released` is set when a slot ends."""

    def __init__(self) -> None:
        super().__init__(self._script)
        self.released = threading.Event()

    def release(self, slot):
        super().release(slot)
        self.released.set()

    def _script(self, slot):
        self.released.clear()
        prompt = ByteTokenizer().decode(slot.prompt_token_ids)
        key = next((key for key in ANSWERS if key in prompt), "rocket")
        steps = [(byte,) for byte in ANSWERS[key].encode()]
        if key == "waits":
            # Silence, in steps so short that the engine sees a cancellation between two.
            steps += [Hook(lambda: threading.Event().wait(0.005))] * 100_000
        return [*steps, RuntimeError("the tape tore") if key == "breaks" else EOS]


class _WithAnEcho(LabTextPath):
    @property
    def held(self):
        return {"echo": b"\0\n\xff", **super().held, "channel": "later"}


def labs_with_an_echo(request, prompt):
    """Return the labs' text path, in front of it a layer of which nobody knows."""
    path = labs_path("solution")(request, prompt)
    path.__class__ = _WithAnEcho
    return path


def labs_server(model=None):
    """Serve with all that the labs have, at a free port until the block ends."""
    composed = find_composed(ROOT, "solution")
    return page_server(model, make_text_path=LabPathFactory(composed), wire=wire_of(composed))


def page_server(model=None, **options):
    """Serve at a free port until the block ends."""
    model = Sayer(model or PageModel(), ByteTokenizer())
    options = {
        "reasoning_format": "qwen3", "can_say": True, "tool_examples": EXAMPLES, **options
    }  # fmt: skip
    return running(model, max_num_seqs=1, max_waiting=1, **options)


class Page:
    """What a person does with the page."""

    def __init__(self, driver, url):
        from selenium.webdriver.common.keys import Keys

        self.keys = Keys
        self.driver = driver
        for kind in ("browser", "performance"):
            driver.get_log(kind)
        driver.get(url)
        self.until(
            "return document.querySelectorAll('#model option').length || $('alert').innerText"
        )
        self.pace(0)

    def js(self, code, *arguments):
        code = "const $ = (id) => document.getElementById(id);" + code
        return self.driver.execute_script(code, *arguments)

    def until(self, condition):
        from selenium.webdriver.support.wait import WebDriverWait

        return WebDriverWait(self.driver, SECONDS, 0.02).until(
            lambda _: self.js(condition), condition
        )

    def pace(self, milliseconds):
        code = "$('pace').value = arguments[0]; $('pace').dispatchEvent(new Event('input'))"
        self.js(code, milliseconds)

    def __getitem__(self, id):
        return self.driver.find_element("id", id)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def texts(self, selector):
        code = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return self.js(code, selector)

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def fill(self, id, text):
        self[id].clear()
        self.js("$(arguments[0]).focus()", id)
        # As it is pasted: a browser takes long over each key.
        self.driver.execute_cdp_cmd("Input.insertText", {"text": text})

    def send(self, prompt, *, tools=False):
        self.fill("prompt", prompt)
        if self["use-tools"].is_selected() != tools:
            self["use-tools"].click()
        self["prompt"].send_keys(self.keys.CONTROL + self.keys.ENTER)

    def ask(self, prompt, **options):
        self.send(prompt, **options)
        return self.end()

    def end(self):
        self.until("return $('answer').ariaBusy === 'false'")
        return self["status"].text

    def paused_at(self, prompt, tokens, **options):
        """Send with the playback paused, and step to a token."""
        self["pause"].click()
        self.send(prompt, **options)
        waiting = "$('progress').textContent.match(/(\\d+) waiting/)?.[1]"
        self.until(f"return Number({waiting}) >= {tokens}")
        self.press(self.keys.F9 * tokens)
        self.until(f"return $('progress').textContent.startsWith('{tokens} token')")

    def layers(self):
        code = "return [...$('held').tBodies[0].rows].map((row) => row.dataset.layer)"
        return self.js(code)

    def held(self, layer):
        return self.text(f"#held [data-layer={layer}] td")


if __name__ == "__main__":
    with page_server(port=8000) as server:
        print(f"{server.url}; prompts: {', '.join(ANSWERS)}. Ctrl-C ends it.")
        threading.Event().wait()
