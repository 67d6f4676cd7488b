"""Ask vLLM's server without a GPU for the answer to a model's text, whole and streamed.

    python upstream/derender.py model FOLDER       write a folder that vLLM takes for a model
    python upstream/derender.py ask FOLDER TEXT    send the text's ids; print the answers as JSON

Run it with the Python of vLLM. Between the two, start the server as the file of `make plugin` says,
with FOLDER in the place of MODEL. The folder has a tokenizer of bytes and no weights.

But: the server parses a stream anew for each chunk, so long texts take long.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

URL = "http://127.0.0.1:8000"
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("f", "g")
]
_ROLES = ["<|im_start|>", "<|im_end|>"]
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)
_CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 32768,
    "dtype": "float32", "rms_norm_eps": 1e-5,
}  # fmt: skip


def write_model(folder: Path) -> None:
    """Write a folder with a configuration, and a tokenizer whose tokens are bytes and tags."""
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({char: id for id, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(_ROLES)
    tokenizer.add_tokens(TAGS)
    tokenizer.save(str(folder / "tokenizer.json"))
    facts = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": _ROLES[1],
        "chat_template": _TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    (folder / "config.json").write_text(json.dumps(_CONFIG))


class Server:
    """A server of `vllm launch render`.

    Args:
        folder: the model's.
        url: of the server.
        model: the model's name there; by default the folder's path.

    Raises:
        urllib.error.URLError: from both methods, if the server cannot be reached or refuses.
    """

    def __init__(self, folder: Path, url: str = URL, model: str = "") -> None:
        self._model = model or str(folder)
        self._url = url
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def whole(self, text: str, prompt: str = "", **options: Any) -> dict[str, Any]:
        """Return the message of the answer to a text.

        Args:
            text: the model's.
            prompt: the end of the prompt, which may leave the reasoning open.
            **options: fields of the chat's request.
        """
        ids = {"token_ids": self._ids(text), "prompt_token_ids": self._ids(prompt)}
        choice = {"index": 0, "token_ids": ids["token_ids"], "finish_reason": "stop"}
        response = {"choices": [choice], "prompt_token_ids": ids["prompt_token_ids"]}
        answer = self._post({"generate_response": response, "chat_request": self._request(options)})
        message: dict[str, Any] = answer["choices"][0]["message"]
        return message

    def streamed(
        self, text: str, size: int, prompt: str = "", **options: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the deltas of the answer to a text, of which each chunk has `size` tokens."""
        ids, state = self._ids(text), None
        for start in range(0, max(len(ids), 1), size):
            end = "stop" if start + size >= len(ids) else None
            choice = {"index": 0, "token_ids": ids[start : start + size], "finish_reason": end}
            answer = self._post(
                {
                    "stream": True, "stream_state": state, "prompt_token_ids": self._ids(prompt),
                    "generate_chunk": {"choices": [choice]},
                    "chat_request": self._request(options),
                }
            )  # fmt: skip
            state = answer["stream_state"]
            yield from (choice["delta"] for choice in answer["chunk"]["choices"])

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def _request(self, options: dict[str, Any]) -> dict[str, Any]:
        messages = [{"role": "user", "content": "?"}]
        return {"model": self._model, "messages": messages, "tools": TOOLS, **options}

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self._url}/v1/chat/completions/derender",
            json.dumps({"model": self._model, **body}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            answer: dict[str, Any] = json.load(response)
        return answer


def _set(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if value not in (None, "", {})}


def _print(title: str, message: dict[str, Any]) -> None:
    """Print the fields that are not null."""
    text = json.dumps(message, ensure_ascii=False)
    fields = json.loads(text, object_pairs_hook=_set)
    if fields:
        print(f"{title:<8} {json.dumps(fields, ensure_ascii=False)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a model's folder, or print the answers; return the exit code."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("derender.py", description=__doc__, formatter_class=form)
    commands = parser.add_subparsers(dest="command", required=True)
    model = commands.add_parser("model", help="write a folder that vLLM takes for a model")
    ask = commands.add_parser("ask", help="print the answers to a text")
    for command in (model, ask):
        command.add_argument("folder", type=Path, metavar="FOLDER")
    ask.add_argument("text", metavar="TEXT")
    ask.add_argument("--size", type=int, default=4, help="tokens in a chunk (default: 4)")
    ask.add_argument("--url", default=URL, help=f"of the server (default: {URL})")
    options = parser.parse_args(arguments)
    if options.command == "model":
        write_model(options.folder)
        print(f"Wrote {options.folder}: a configuration and a tokenizer, without weights.")
        return 0
    if not (options.folder / "tokenizer.json").is_file():
        parser.error(f"{options.folder} has no tokenizer.json; write it: derender.py model FOLDER")
    if options.size < 1:
        parser.error(f"--size is {options.size}; it must be at least 1")
    server = Server(options.folder, options.url)
    try:
        _print("whole", server.whole(options.text))
        for delta in server.streamed(options.text, options.size):
            _print("streamed", delta)
    except urllib.error.HTTPError as error:
        print(f"{options.url} refuses the text: {error.read().decode()[:500]}", file=sys.stderr)
        return 1
    except urllib.error.URLError as error:
        print(f"{options.url} does not answer ({error.reason}). Is it up?", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
