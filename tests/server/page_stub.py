"""The real server with a model that reads its answers from a script, for tests of the page.

`python tests/server/page_stub.py` serves it for a look; its prompts are the keys of `ANSWERS`.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from mini_vllm.engine import Engine, EngineThread, TextPathFactory
from mini_vllm.models.scripted import Hook, ScriptedModel
from mini_vllm.server.app import create_app
from mini_vllm.server.http_server import Server
from mini_vllm.server.prometheus_metrics import PrometheusMetrics
from mini_vllm.server.service import Service
from mini_vllm.tokenizer import ByteTokenizer, ChatTemplate

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
EOS = (ByteTokenizer.eos_token_id,)
_MAX_WAITING = 1


class _Model(ScriptedModel):
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


@dataclass
class PageServer:
    """A server that runs. `full` is how many requests it takes before it answers 429."""

    url: str
    model: _Model
    full: int = 1 + _MAX_WAITING


@contextmanager
def page_server(*, api_key: str | None = None, port: int = 0) -> Iterator[PageServer]:
    """Serve at a free port until the block ends."""
    model, tokenizer = _Model(), ByteTokenizer()
    formats = {"tool_format": "hermes", "reasoning_format": "qwen3"}
    metrics = PrometheusMetrics()
    engine = Engine(
        model,
        tokenizer,
        max_num_seqs=1,
        num_blocks=512,
        max_model_len=8192,
        max_waiting=_MAX_WAITING,
        make_text_path=TextPathFactory(tokenizer, **formats),
        metrics=metrics,
    )
    service = Service(
        engine,
        EngineThread(engine),
        tokenizer,
        ChatTemplate.simple(),
        "scripted",
        metrics,
        **formats,
    )
    config = uvicorn.Config(
        create_app(service, api_key=api_key), lifespan="off", log_level="warning", ws="none"
    )
    server = Server(config, service, drain_seconds=1)
    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield PageServer(f"http://127.0.0.1:{listener.getsockname()[1]}", model)
        finally:
            server.should_exit = True
            thread.join()


if __name__ == "__main__":
    with page_server(port=8000) as running:
        print(f"{running.url}; prompts: {', '.join(ANSWERS)}. Ctrl-C ends it.")
        threading.Event().wait()
