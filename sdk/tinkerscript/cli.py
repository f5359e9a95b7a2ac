"""The command line.

    tinkerscript sessions | session ID | events ID | download ID [PATH] | episodes ID [PATH] | stop ID

Uses the SDK alone, with the address and key of TINKERSCRIPT_BASE_URL and TINKERSCRIPT_API_KEY.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

try:
    import typer
    from rich.console import Console
    from rich.table import Table
except ImportError as missing:
    raise SystemExit(f"{missing}. The command line needs: pip install 'tinkerscript[cli]'") from missing

from .client import connect
from .errors import TinkerScriptError
from .session import Session, session_list
from .transport import Transport
from .wire.checkpoints import CheckpointKind, CheckpointState, CheckpointView
from .wire.events import EventKind

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Look at and steer training sessions.")
out = Console()


@contextlib.contextmanager
def connection() -> Iterator[Transport]:
    """A connection that is closed at the end, however that comes."""
    transport = connect(retry_timeout_s=30.0)
    try:
        yield transport
    finally:
        transport.close()


@app.command()
def sessions() -> None:
    """List the sessions of the key's project, newest first."""
    table = Table("id", "name", "base model", "state", "phase", "version", "reward")
    with connection() as transport:
        for view in session_list(transport):
            reward = "" if view.reward_mean is None else f"{view.reward_mean:.3f}"
            table.add_row(
                view.id, view.name, view.base_model, view.state.value, view.phase, str(view.policy_version), reward
            )
    out.print(table)


@app.command()
def session(session_id: str) -> None:
    """Print everything about one session, as JSON."""
    with connection() as transport:
        out.print_json(Session(transport, session_id).status().model_dump_json())


@app.command()
def events(session_id: str, follow: bool = False, after: int = 0, kind: list[EventKind] | None = None) -> None:
    """Print the session's record as JSON lines; --follow waits for more, --kind may be given several times."""
    with connection() as transport:
        for event in Session(transport, session_id).events(after=after, kinds=kind or None, follow=follow):
            print(event.model_dump_json(), flush=True)


@app.command()
def download(session_id: str, path: Annotated[Path, typer.Argument()] = Path("tuned_model")) -> None:
    """Download the tuned model; of a session that has ended, the last one that was exported."""
    with connection() as transport:
        which = Session(transport, session_id)
        ready = _model_to_reuse(which)
        model = which.download_checkpoint(ready.id, path) if ready else which.download_tuned_model(path)
    print(model)


@app.command()
def episodes(session_id: str, path: Annotated[Path, typer.Argument()] = Path("episodes")) -> None:
    """Download every archived episode as Parquet, also of a session that has ended; prints the files."""
    with connection() as transport:
        for part in Session(transport, session_id).download_episodes(path):
            print(part)


@app.command()
def stop(session_id: str) -> None:
    """End a session. Its checkpoints stay."""
    with connection() as transport:
        print(Session(transport, session_id).stop().state.value)


def _model_to_reuse(which: Session) -> CheckpointView | None:
    """The newest exported model, when no newer one can be made or none would differ."""
    view = which.status()
    for checkpoint in which.checkpoints():
        if checkpoint.kind is CheckpointKind.MODEL and checkpoint.state is CheckpointState.COMMITTED:
            return checkpoint if view.state.is_terminal or checkpoint.step == view.policy_version else None
    return None


def main() -> None:
    """The entry point: typed errors become one line on stderr and exit status 1."""
    try:
        app()
    except TinkerScriptError as failure:
        print(f"tinkerscript: {failure}", file=sys.stderr)
        sys.exit(1)
