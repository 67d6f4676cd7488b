"""The tokenizer files of a model, fetched from a Hugging Face hub into its shared cache.

One request lists the model's files. The files that the factory will read and the cache lacks are
fetched, each file whole or not at all: if there are several vocabularies, the vocabulary that
counts, no weights, and no files from subfolders. A terminal shows the progress. The cache's ref
names the folder only when all files are there, so the files of an interrupted download are never
mistaken for a complete folder. If the hub does not answer within seconds, the folder of an earlier
call is used.

No request is repeated. Files that were fetched before a failure are kept, so a second call
continues after them.

HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and HF_HUB_DISABLE_PROGRESS_BARS are read at each call;
HF_HUB_CACHE is read when the library is imported, at the first call.
"""

import contextlib
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mini_vllm.tokenizer.loading.detect import files_that_count
from mini_vllm.tokenizer_errors import HubError

if TYPE_CHECKING:
    from rich.progress import Progress

_TIMEOUT_SECONDS = 5.0
_COMPANIONS = (
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "*.jinja",
    "chat_template.json", "config.json", "generation_config.json",
)  # fmt: skip
_YES = ("1", "ON", "YES", "TRUE")
# No separator, no drive, no leading dot: joined to a folder, it stays in it.
_PLAIN_NAME = re.compile(r"\w[\w.+-]*", re.ASCII)
_REVISION = re.compile(rf"{_PLAIN_NAME.pattern}(/{_PLAIN_NAME.pattern})*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")


def download_tokenizer_from_hf(
    model_id: str,
    *,
    cache_dir: str | Path | None = None,
    token: str | None = None,
    revision: str | None = None,
) -> Path:
    """Return the folder with a model's tokenizer files, fetching those that are missing.

    Weights are never fetched, so there is no `ignore_weights`, as Dynamo's `from_hf` has.

    Args:
        model_id: `name` or `organisation/name`.
        cache_dir: the cache; by default HF_HUB_CACHE, which other tools also share.
        token: the access token; by default HF_TOKEN, or that of a login. An empty token is not
            sent.
        revision: a branch, tag or commit; by default `main`.

    Raises:
        HubError: the id or revision is invalid, the model is gated, does not exist or has no
            tokenizer, the download broke off, or there is neither a hub nor a cached folder.
    """
    revision = revision or "main"
    storage = _storage(model_id, cache_dir)
    _check(revision, token)
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in _YES:
        return _cached(storage, revision, "HF_HUB_OFFLINE is set; unset it to download")
    try:
        commit, listed = _list(model_id, revision, token)
    except Exception as error:
        # The library's own errors, those of its HTTP client, and anything for a bad answer.
        _raise_refusal(error, model_id)
        if _status(error) == 404:
            raise HubError(
                f"the hub has no model {model_id!r} with revision {revision!r}; check the spelling"
            ) from error
        return _cached(storage, revision, f"the hub gave no listing ({_brief(error)})")
    folder = storage / "snapshots" / commit
    missing = [name for name in _files_of(model_id, listed) if not (folder / name).exists()]
    with _progress(enabled=bool(missing)) as progress:
        for name in missing:
            _fetch(model_id, commit, name, folder / name, token, progress)
    # A read-only cache still serves, but without a ref it cannot while the hub is away.
    with contextlib.suppress(OSError):
        _write(storage / "refs" / revision, [commit.encode()])
    return folder


def tokenizer_files(names: Iterable[str]) -> list[str]:
    """Return the files of a repository that the factory reads: top level only, sorted.

    If there are several vocabularies, the function returns the vocabulary that counts in a folder.
    GGUF files are left out, since they contain weights. Companions such as `config.json` count only
    together with a vocabulary.
    """
    plain = {name for name in names if _PLAIN_NAME.fullmatch(name)}
    vocabulary = files_that_count(name for name in plain if not name.endswith(".gguf"))
    if not vocabulary:
        return []
    companions = (
        name for name in plain if any(fnmatchcase(name, pattern) for pattern in _COMPANIONS)
    )
    return sorted({*vocabulary, *companions})


@contextlib.contextmanager
def _progress(*, enabled: bool) -> Iterator["Progress"]:
    """Show progress bars on standard error, if it is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    console = Console(stderr=True)
    quiet = os.environ.get("HF_HUB_DISABLE_PROGRESS_BARS", "").upper() in _YES
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn()
    shown = enabled and console.is_terminal and not quiet
    with Progress(*columns, console=console, disable=not shown) as progress:
        yield progress


def _check(revision: str, token: str | None) -> None:
    if not _REVISION.fullmatch(revision):
        raise HubError(f"{revision!r} is not a revision; write a branch, a tag or a commit")
    # The HTTP client would quote an invalid token in its error.
    if token and not (token.isascii() and token.strip().isprintable()):
        raise HubError("the access token has characters that tokens never have; copy it again")


def _storage(model_id: str, cache_dir: str | Path | None) -> Path:
    """Return the model's folder in the cache.

    Raises:
        HubError: the model id is invalid, by the library's own check.
    """
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.file_download import repo_folder_name

    try:
        folder = repo_folder_name(repo_id=model_id, repo_type="model")
    except HFValidationError:
        raise HubError(
            f"{model_id!r} is not a model id; write name or organisation/name, as on the hub"
        ) from None
    return Path(HF_HUB_CACHE if cache_dir is None else cache_dir).expanduser() / folder


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or None


def _access(token: str | None) -> str | Literal[False] | None:
    """Return the library's token argument: False for no token, None for the library's choice."""
    value = os.environ.get("HF_TOKEN") if token is None else token
    if value is not None and not value.strip():
        return False
    return None if token is None else token.strip()


def _list(model_id: str, revision: str, token: str | None) -> tuple[str, list[str]]:
    """Return the commit of a revision and the names of its files."""
    from huggingface_hub import HfApi

    # This is the only listing in the library that takes a timeout and does not retry.
    info = HfApi(endpoint=_endpoint(), token=_access(token)).model_info(
        model_id, revision=revision, timeout=_TIMEOUT_SECONDS
    )
    if not _COMMIT.fullmatch(info.sha or ""):
        raise ValueError(f"its commit is {info.sha!r:.60}")
    return str(info.sha), [file.rfilename for file in info.siblings or ()]


def _files_of(model_id: str, listed: list[str]) -> list[str]:
    if not listed:
        raise HubError(f"model {model_id!r} has no files")
    files = tokenizer_files(listed)
    if not files:
        raise HubError(
            f"model {model_id!r} has no tokenizer files that can be read; "
            f"it has {', '.join(listed[:5])}{' ...' if len(listed) > 5 else ''}"
        )
    return files


def _fetch(
    model_id: str, commit: str, name: str, path: Path, token: str | None, progress: "Progress"
) -> None:
    """Fetch one file to `path`, whole or not at all.

    `hf_hub_download` lets the hub decide where it writes, because it makes file names of ETags. It
    also repeats each request for up to 23 seconds.

    Raises:
        HubError: the hub refuses the request, or the download broke off.
    """
    from huggingface_hub import get_session, hf_hub_url, hf_raise_for_status
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    url = hf_hub_url(model_id, name, revision=commit, endpoint=_endpoint())
    headers = build_hf_headers(token=_access(token))
    try:
        with get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT_SECONDS) as answer:
            hf_raise_for_status(answer)
            size = answer.headers.get("Content-Length", "")
            task = progress.add_task(name, total=int(size) if size.isdecimal() else None)

            def chunks() -> Iterator[bytes]:
                for chunk in answer.iter_bytes():
                    progress.update(task, completed=answer.num_bytes_downloaded)
                    yield chunk

            _write(path, chunks())
    except Exception as error:
        _raise_refusal(error, model_id)
        raise HubError(
            f"the download of {name} of {model_id!r} broke off ({_brief(error)}); try again"
        ) from error


def _status(error: Exception) -> int | None:
    """Return the HTTP status of an error's response, or None if there was no response."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _raise_refusal(error: Exception, model_id: str) -> None:
    if _status(error) in (401, 403):
        raise HubError(
            f"no access to model {model_id!r}: it is gated or private, or there is no such model; "
            "accept its terms on its page and set HF_TOKEN"
        ) from error


def _brief(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first:.200}"


def _cached(storage: Path, revision: str, reason: str) -> Path:
    """Return the complete folder that an earlier call has left.

    Raises:
        HubError: no complete folder is cached; the message ends in `reason`.
    """
    names: list[str] = []
    with contextlib.suppress(OSError):
        commit = (storage / "refs" / revision).read_text(encoding="ascii", errors="replace").strip()
        if _COMMIT.fullmatch(commit):
            folder = storage / "snapshots" / commit
            names = [path.name for path in folder.iterdir() if path.is_file()]
    if not tokenizer_files(names):
        raise HubError(f"no tokenizer is cached in {storage}, and {reason}")
    return folder


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{uuid.uuid4().hex}.incomplete")
    try:
        with part.open("wb") as file:
            file.writelines(chunks)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
