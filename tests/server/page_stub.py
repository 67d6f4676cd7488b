"""The real server with a model that reads its answers from a script, for tests of the page.

`python tests/server/page_stub.py` serves it for a look; its prompts are the keys of `ANSWERS`.
"""

import threading

from running import EOS, running

from mini_vllm.models.scripted import Hook, ScriptedModel
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
# How many requests it takes before it answers 429.
FULL = 2


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


def page_server(model=None, **options):
    """Serve at a free port until the block ends."""
    return running(
        model or PageModel(), reasoning_format="qwen3", max_num_seqs=1, max_waiting=1, **options
    )


if __name__ == "__main__":
    with page_server(port=8000) as server:
        print(f"{server.url}; prompts: {', '.join(ANSWERS)}. Ctrl-C ends it.")
        threading.Event().wait()
