"""Client libraries on our server, each in an environment of its own, and a table of the results.

    python tests/oracles/clients/run.py            all of them
    python tests/oracles/clients/run.py langchain  those whose name has this in it

Each asks for a whole answer, a streamed one, one for which it calls a tool, and, if it can, an
object of a schema; what they must make of it is in `expected.json`, what the model says in
`script.toml`. pip and npm fetch the libraries once, 2.6 GB, into `.oracles/clients/`. But for
`sources`, no scripts of packages run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ENVIRONMENTS = ROOT / ".oracles" / "clients"
STEPS = ("chat", "stream", "tools", "structured")
# The longest that one client may take, in seconds: most of it goes into importing it.
LONGEST = 600


@dataclass(frozen=True)
class Client:
    """One library.

    Attributes:
        name: of its environment.
        packages: what is installed, with versions; the first is the library.
        programs: those that use it, and the API that each asks.
        kind: of its packages: py or mjs.
        sources: packages of which there is no wheel, as pip lists them; those are built.
    """

    name: str
    packages: tuple[str, ...]
    programs: dict[str, str]
    kind: str = "py"
    sources: str = ""

    @property
    def folder(self) -> Path:
        """Its environment."""
        return ENVIRONMENTS / self.name

    @property
    def python(self) -> Path:
        """The Python of its environment."""
        return self.folder / "bin" / "python"


OPENAI = {"openai_chat": "chat", "openai_responses": "responses"}
CLIENTS = (
    Client("openai-1", ("openai==1.109.1",), OPENAI),
    Client("openai-3", ("openai==3.57.0",), OPENAI),
    Client(
        "langchain", ("langchain-openai==1.7.4",),
        {"with_langchain": "chat", "with_langchain_responses": "responses"},
    ),
    Client(
        "langgraph", ("langgraph==1.2.24", "langchain==1.5.2", "langchain-openai==1.7.4"),
        {"with_langgraph": "chat"},
    ),
    # Without `mcp`, it cannot take tools at all.
    Client("litellm", ("litellm==1.110.2", "mcp==2.3.0"), {"with_litellm": "chat"}),
    Client("instructor", ("instructor==1.17.0",), {"with_instructor": "chat"}),
    Client(
        "pydantic-ai", ("pydantic-ai-slim[openai]==2.68.0",),
        {"with_pydantic_ai": "chat", "with_pydantic_ai_responses": "responses"},
    ),
    Client(
        "openai-agents", ("openai-agents==0.24.0",),
        {"with_agents_chat": "chat", "with_agents": "responses"},
    ),
    Client("smolagents", ("smolagents[openai]==1.26.0",), {"with_smolagents": "chat"}),
    Client(
        "haystack", ("haystack-ai==3.4.1",),
        {"with_haystack": "chat", "with_haystack_responses": "responses"},
    ),
    Client(
        "autogen", ("autogen-ext[openai]==0.7.5", "autogen-agentchat==0.7.5"),
        {"with_autogen": "chat"},
    ),
    Client(
        "llama-index", ("llama-index-llms-openai-like==0.8.1",), {"with_llama_index": "chat"}
    ),
    Client(
        "semantic-kernel", ("semantic-kernel==1.45.0",), {"with_semantic_kernel": "chat"},
        sources="pybars4,PyMeta3",
    ),
    Client("dspy", ("dspy==3.4.1",), {"with_dspy": "chat"}),
    Client("llm", ("llm==0.36",), {"with_llm": "chat"}),
    Client("openai-node", ("openai@7.59.0",), OPENAI, "mjs"),
    Client(
        "ai-sdk-openai", ("@ai-sdk/openai@4.0.118", "ai@7.0.173", "zod@4.6.7"),
        {"ai_chat": "chat", "ai_responses": "responses"}, "mjs",
    ),
    Client(
        "ai-sdk-compatible", ("@ai-sdk/openai-compatible@3.0.92", "ai@7.0.173", "zod@4.6.7"),
        {"ai_compatible": "chat"}, "mjs",
    ),
    Client("qwen-code", ("@qwen-code/qwen-code@0.24.4",), {"with_qwen_code": "chat"}, "mjs"),
    Client("opencode", ("opencode-ai@1.18.33",), {"with_opencode": "chat"}, "mjs"),
)  # fmt: skip


def main() -> int:
    """Run the clients that are named, or all; print the table; return the exit code."""
    names = sys.argv[1:] or [""]
    wanted = [one for one in CLIENTS if any(name in one.name for name in names)]
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    (ENVIRONMENTS / ".gitignore").write_text("*\n")
    problems = []
    row = "{:<32}{:<10}{:<11}{:<8}{:<8}{:<8}{:<12}{}".format
    with serving() as url:
        print(row("client", "version", "API", *STEPS, "result"))
        for client in wanted:
            missing = install(client)
            for program, api in client.programs.items():
                said = missing or run(client, program, url)
                wrong = {step: why for step, why in said.items() if why != "ok"}
                marks = ["no" if step in wrong else said.get(step, "-") for step in STEPS]
                result = "FAILED" if wrong else "ok"
                library, version = re.fullmatch("(.+?)(?:==|@)([^@]+)", client.packages[0]).groups()
                library += " (npm)" if client.kind == "mjs" else ""
                print(row(library, version, api, *marks, result), flush=True)
                problems += [f"{client.name} {api}, {step}: {why}" for step, why in wrong.items()]
    print("\n".join(["", *problems]) if problems else f"\n{len(wanted)} clients are content.")
    return 1 if problems else 0


def install(client: Client) -> dict[str, str]:
    """Make a client's environment, unless it is there; return what is wrong."""
    mark, wanted = client.folder / "installed.txt", "\n".join(client.packages)
    if mark.is_file() and mark.read_text() == wanted:
        return {}
    shutil.rmtree(client.folder, ignore_errors=True)
    client.folder.mkdir()
    if client.kind == "mjs":
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        (client.folder / "package.json").write_text('{"private": true, "type": "module"}')
    else:
        venv.create(client.folder, with_pip=False)
        command = [sys.executable, "-m", "pip", f"--python={client.python}", "install", "-qq"]
        command += ["--no-compile", "--only-binary=:all:", "--disable-pip-version-check"]
        command += [f"--no-binary={client.sources}"] if client.sources else []
    if shutil.which(command[0]) is None:
        return {"install": f"{command[0]} is missing"}
    if subprocess.run([*command, *client.packages], cwd=client.folder, check=False).returncode:
        return {"install": f"{Path(command[0]).name} says why above"}
    mark.write_text(wanted)
    return {}


def run(client: Client, program: str, url: str) -> dict[str, str]:
    """Return what a client's program says of each step; what it writes goes to a file."""
    if client.kind == "mjs":
        # Node looks for packages beside the program.
        shutil.copytree(HERE, client.folder, dirs_exist_ok=True)
        command = ["node", "steps.mjs"]
    else:
        command = [str(client.python), "-I", str(HERE / "steps.py")]
    quiet = {
        "HOME": str(client.folder), "NO_PROXY": "127.0.0.1", "DO_NOT_TRACK": "1",
        "HAYSTACK_TELEMETRY_ENABLED": "false", "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "true", "PYTHONUTF8": "1",
    }  # fmt: skip
    log = client.folder / f"{program}.log"
    with log.open("w") as errors:
        try:
            done = subprocess.run(
                [*command, program, url], cwd=client.folder, env={**os.environ, **quiet},
                stdout=subprocess.PIPE, stderr=errors, timeout=LONGEST, check=False,
                encoding="utf-8",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return dict.fromkeys(STEPS, f"did not end in {LONGEST} s")
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return dict.fromkeys(STEPS, f"ended with {done.returncode}; see {log.relative_to(ROOT)}")


@contextmanager
def serving() -> Iterator[str]:
    """Serve the script; yield the URL of the API."""
    command = [sys.executable, "-P", "-m", "mini_vllm.server", "--port=0", "--tokenizer=byte",
               f"--script={HERE / 'script.toml'}", "--reasoning-parser=qwen3",
               "--tool-call-parser=hermes", "--max-model-len=300000"]  # fmt: skip
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1
    ) as server:
        try:
            yield next(filter(None, map(_url_in, server.stdout)))
        finally:
            server.terminate()


def _url_in(line: str) -> str:
    found = re.search("http://[^/ ]+", line)
    return f"{found[0]}/v1" if found else ""


if __name__ == "__main__":
    sys.exit(main())
