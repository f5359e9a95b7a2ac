"""Commands that bring things to this disk, and the one that shows them there."""

import contextlib
import webbrowser
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tinkerscript.downloads.checkpoints import model_to_reuse
from tinkerscript.errors import InvalidRequest
from tinkerscript.exporting.verify import folder_verify
from tinkerscript.sessions.session import Session
from tinkerscript.viewer.run_folder import RunFolder
from tinkerscript.viewer.server import Viewer
from tinkerscript.wire.episodes import EpisodeView

from .terminal import connection, rows_print


def download(
    session_id: str,
    path: Annotated[Path, typer.Argument()] = Path("tuned_model"),
    checkpoint: Annotated[
        str, typer.Option(help="The id of a checkpoint that is committed, of either kind.")
    ] = "",
) -> None:
    """Download the tuned model; of a session that has ended, the last one that was exported."""
    with connection() as transport:
        which = Session(transport, session_id)
        ready = checkpoint or ((found := model_to_reuse(which)) and found.id)
        print(which.download_checkpoint(ready, path) if ready else which.download_tuned_model(path))


def episodes(
    session_id: str,
    path: Annotated[Path, typer.Argument()] = Path("episodes"),
    listed: Annotated[
        bool, typer.Option("--list", help="Print them, newest first, and download nothing.")
    ] = False,
) -> None:
    """Download every archived episode as Parquet, also of a session that has ended; prints the
    files.

    --list prints each with its state, reward, calls, and what was refused of its calls.
    """
    with connection() as transport:
        if listed:
            columns = ("episode", "task", "state", "reward", "calls", "reason", "refused")
            rows_print(columns, map(_episode_row, Session(transport, session_id).episodes()))
            return
        for part in Session(transport, session_id).download_episodes(path):
            print(part)


def _episode_row(view: EpisodeView) -> tuple[object, ...]:
    refused = " ".join(view.refused.sentence.split()) if view.refused else None
    return (
        view.episode_id,
        view.task,
        (view.fate or view.state).value,
        view.reward,
        view.calls,
        view.reason,
        refused,
    )


def record(session_id: str, path: Annotated[Path, typer.Argument()] = Path("run")) -> None:
    """Download what the console shows of a run, to read it without a server: tinkerscript view
    PATH.
    """
    with connection() as transport:
        print(Session(transport, session_id).download_record(path))


def view(
    folder: Annotated[Path, typer.Argument(help="What `tinkerscript record` wrote.")],
    browser: Annotated[bool, typer.Option(help="Open it in the browser.")] = True,
) -> None:
    """Show an exported run in the console's pages: no server, no account. Ctrl-C ends it."""
    with Viewer(RunFolder(folder)) as viewer:
        print(viewer.address, flush=True)
        if browser:
            webbrowser.open(viewer.address)
        with contextlib.suppress(KeyboardInterrupt):
            viewer.serve_forever()


def verify(folder: Annotated[Path, typer.Argument(help="A downloaded model.")]) -> None:
    """Compare a model's files with what was trained: ids of texts, the chat template, theta.

    Uses tokenizers and transformers, of whichever versions are installed. Ends with 1 where
    something differs.
    """
    checks = folder_verify(folder)
    rows_print(
        ("checked", "found"), ((check.name, check.problem or "as trained") for check in checks)
    )
    if any(check.problem for check in checks):
        raise typer.Exit(1)


class GgufKind(StrEnum):
    """How weights are stored in a GGUF file."""

    F16 = "f16"
    Q8_0 = "q8_0"
    Q4_K_M = "q4_k_m"


def export(
    folder: Annotated[Path, typer.Argument(help="A model that `tinkerscript download` brought.")],
    gguf: Annotated[GgufKind, typer.Option(help="How the weights are stored.")] = GgufKind.Q8_0,
) -> None:
    """Write a downloaded model as GGUF, for llama.cpp, and a Modelfile for Ollama: FOLDER/gguf."""
    if find_spec("gguf") is None or find_spec("jinja2") is None:
        raise InvalidRequest(
            "It needs packages that are not installed.", hint="pip install 'tinkerscript[gguf]'"
        )
    if gguf is GgufKind.Q4_K_M and find_spec("libgguf") is None:
        hint = "pip install 'tinkerscript[gguf,q4-k-m]'"
        raise InvalidRequest("It needs a package that is not installed: libgguf.", hint=hint)
    from tinkerscript.exporting.gguf_file import gguf_export

    for path in gguf_export(folder, gguf.value):
        print(path)


def push(
    folder: Annotated[Path, typer.Argument(help="A model or an adapter that was downloaded.")],
    name: Annotated[
        str, typer.Argument(help="Of the repository: OWNER/NAME. It is made if there is none.")
    ],
    endpoint: Annotated[
        str | None, typer.Option(help="A server that speaks the Hub's API; else HF_ENDPOINT.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Everybody may read a repository that is made.")
    ] = False,
) -> None:
    """Push a downloaded model to the Hugging Face Hub, or to another server with its API; prints
    the commit's address.

    The token is HF_TOKEN, or that of `hf auth login`.
    """
    if find_spec("huggingface_hub") is None:
        raise InvalidRequest(
            "It needs a package that is not installed.", hint="pip install 'tinkerscript[hub]'"
        )
    from tinkerscript.exporting.hub import folder_push

    print(folder_push(folder, name, endpoint=endpoint, is_public=public))
