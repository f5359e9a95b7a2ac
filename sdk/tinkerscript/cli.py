"""The command line.

    tinkerscript sessions | session ID | events ID | logs ID | metrics ID | plot ID | stop ID
    tinkerscript suspend ID | resume ID [--trainer-ranks N]
    tinkerscript tasks ID | worker MODULE:FUNCTION --session ID [--judge MODULE:NAME] | serve MODEL
    tinkerscript download ID [PATH] | episodes ID [PATH] | record ID [PATH] | view FOLDER
    tinkerscript verify FOLDER | export FOLDER [--gguf KIND] | push FOLDER OWNER/NAME [--endpoint URL] [--public]
    tinkerscript chat ID | models | keys | --version

Uses the SDK alone, with the address and key of TINKERSCRIPT_BASE_URL and TINKERSCRIPT_API_KEY. On a
terminal lists are tables; elsewhere each row is a line of whole values with tabs between them.
"""

import contextlib
import shutil
import sys
from pathlib import Path
from typing import Annotated

try:
    import typer

    from .commands import files
    from .commands.terminal import connection, out, rows_print
except ImportError as missing:
    raise SystemExit(
        f"{missing}. The command line needs: pip install '.[cli]' in a checkout"
    ) from missing

from .chat import Chat
from .client import TinkerScript
from .curve import REWARD, curve, png_check
from .errors import TinkerScriptError
from .serving import serve as model_serve
from .sessions.session import Session, session_list
from .wire.account import KeyList
from .wire.events import EventKind, StepMetrics
from .wire.sessions import BaseModelList, SessionLogs
from .wire.tasks import TaskCounts
from .wire.version import VERSION
from .worker import Worker, agent_load, judge_load

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Look at and steer training sessions."
)
for command in (
    files.download,
    files.episodes,
    files.record,
    files.view,
    files.verify,
    files.export,
    files.push,
):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tinkerscript {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Look at and steer training sessions."""


@app.command()
def sessions() -> None:
    """List the sessions of the key's project, newest first."""
    with connection() as transport:
        rows_print(
            ("id", "name", "base model", "state", "phase", "version", "reward"),
            (
                (
                    v.id,
                    v.name,
                    v.base_model,
                    v.state.value,
                    v.phase,
                    v.policy_version,
                    _number(v.reward_mean),
                )
                for v in session_list(transport)
            ),
        )


@app.command()
def models() -> None:
    """List the base models that a session can start from."""
    with connection() as transport:
        items = transport.request("GET", "/v1/base-models", response=BaseModelList).items
    rows = ((m.name, m.parameters, m.context_length, m.license) for m in items)
    rows_print(("name", "parameters", "context", "license"), rows)


@app.command()
def keys() -> None:
    """List the API keys of the project, without their secrets; needs a key with the scope admin."""
    with connection() as transport:
        items = transport.request("GET", "/v1/keys", response=KeyList).items
    rows = (
        (
            k.id,
            k.name,
            k.prefix,
            ",".join(k.scopes),
            "revoked" if k.revoked_at else "",
            k.last_used_at,
        )
        for k in items
    )
    rows_print(("id", "name", "prefix", "scopes", "revoked", "last used"), rows)


@app.command()
def logs(session_id: str) -> None:
    """Print what the session's runtime wrote last."""
    with connection() as transport:
        for line in transport.request(
            "GET", f"/v1/sessions/{session_id}/logs", response=SessionLogs
        ).lines:
            print(line)


@app.command()
def metrics(session_id: str) -> None:
    """List every step: reward, loss, gradient norm, tokens and times."""
    columns = (
        "step",
        "reward",
        "std",
        "loss",
        "grad norm",
        "kl",
        "episodes",
        "tokens",
        "rollout s",
        "train s",
    )
    rows_print(columns, map(_metrics_row, _steps(session_id)))


@app.command()
def plot(
    session_id: str,
    png: Annotated[
        Path | None, typer.Option(help="Also write a picture; needs matplotlib.")
    ] = None,
) -> None:
    """Draw the mean reward of every step as a curve in the terminal."""
    if png is not None:
        png_check()
    with connection() as transport:
        drawn = Session(transport, session_id).plot(png)
    width = max(16, min(100, shutil.get_terminal_size().columns - 12))
    rewards = next((line.values for line in drawn.lines if line.name == REWARD), [])
    print(curve(rewards, title="mean reward by step", width=width))
    if png is not None:
        print(png)


@app.command()
def chat(session_id: str) -> None:
    """Talk to the model that a running session has now; nothing of it is trained. An empty line
    ends it.
    """
    attached = TinkerScript(session_id=session_id)
    try:
        with (
            attached.begin_episode(eval=True) as episode,
            contextlib.closing(Chat(episode)) as talk,
        ):
            with contextlib.suppress(EOFError, KeyboardInterrupt):
                while text := input("> ").strip():
                    for piece in talk.say(text):
                        print(piece, end="", flush=True)
                    print()
            episode.abandon("chat")
    finally:
        attached.close(stop=False)


def _steps(session_id: str) -> list[StepMetrics]:
    with connection() as transport:
        events = Session(transport, session_id).events(kinds=[EventKind.METRIC])
        return [StepMetrics.model_validate(event.data) for event in events]


def _metrics_row(m: StepMetrics) -> tuple[object, ...]:
    quality = map(_number, (m.reward_mean, m.reward_std, m.loss, m.grad_norm, m.kl_engine))
    return (
        m.step,
        *quality,
        m.episodes,
        m.tokens_trained,
        _number(m.rollout_s),
        _number(m.train_s),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


@app.command()
def session(session_id: str) -> None:
    """Print everything about one session, as JSON."""
    with connection() as transport:
        out.print_json(Session(transport, session_id).status().model_dump_json())


@app.command()
def events(
    session_id: str, follow: bool = False, after: int = 0, kind: list[EventKind] | None = None
) -> None:
    """Print the session's record as JSON lines; --follow waits for more, --kind may be given
    several times.
    """
    with connection() as transport:
        for event in Session(transport, session_id).events(
            after=after, kinds=kind or None, follow=follow
        ):
            print(event.model_dump_json(), flush=True)


@app.command()
def tasks(session_id: str) -> None:
    """Show how far the queue of tasks is, and what failed in it."""
    with connection() as transport:
        counts = Session(transport, session_id).read("/tasks", TaskCounts)
    columns = ("waiting", "running", "done", "failed", "workers")
    rows_print(columns, [tuple(getattr(counts, column) for column in columns)])
    for failure in counts.failures:
        print(f"{failure.name}\t{failure.error}")


@app.command()
def worker(
    agent: Annotated[str, typer.Argument(help="module:function, called with a row and an episode")],
    session: Annotated[str, typer.Option(help="The session whose tasks are pulled.")],
    workers: Annotated[int, typer.Option(help="Attempts at once.")] = 8,
    lease_s: Annotated[
        float, typer.Option(help="After so long without a sign another worker takes over.")
    ] = 60.0,
    until_empty: Annotated[bool, typer.Option(help="End when no attempt waits or runs.")] = False,
    attempt_timeout_s: Annotated[
        float | None,
        typer.Option(help="After so long an agent has failed; by default episode_timeout_s."),
    ] = None,
    judge: Annotated[
        str,
        typer.Option(
            help="module:name, called with a row and outputs, or an LlmJudge: plays judged tasks "
            "alone."
        ),
    ] = "",
) -> None:
    """Pull tasks of a session and run an agent on them, until the session ends."""
    run, judging = agent_load(agent), judge_load(judge) if judge else None
    attached = TinkerScript(session_id=session)
    try:
        pulling = Worker(
            attached,
            run,
            workers=workers,
            lease_s=lease_s,
            until_empty=until_empty,
            attempt_timeout_s=attempt_timeout_s,
            judge=judging,
        )
        print(f"pulling from {session}", flush=True)
        pulling.run()
        print(f"{pulling.done} attempts done, {pulling.failed} tries failed")
    finally:
        attached.close(stop=False)


@app.command()
def serve(
    model: Annotated[
        str, typer.Argument(help="A base model, or the id of a checkpoint of kind model.")
    ],
    name: Annotated[str, typer.Option(help="What the console calls it.")] = "",
    idle_suspend_s: Annotated[
        float, typer.Option(help="It suspends after so long without a call.")
    ] = 600.0,
    wait: Annotated[bool, typer.Option(help="Return when it answers calls.")] = True,
) -> None:
    """Serve a model without training it; prints its session, the base_url, the key, and the model
    to name in calls.
    """
    timeout_s = 900.0 if wait else None
    served = model_serve(model, name=name, idle_suspend_s=idle_suspend_s, wait_timeout_s=timeout_s)
    served.close()
    told = (
        ("session", served.id),
        ("base_url", served.base_url),
        ("api_key", served.api_key),
        ("model", served.model),
    )
    for what, value in told:
        print(f"{what}\t{value}")


@app.command()
def stop(session_id: str) -> None:
    """End a session. Its checkpoints stay."""
    with connection() as transport:
        print(Session(transport, session_id).stop().state.value)


@app.command()
def suspend(session_id: str) -> None:
    """Save a session and give up its machine until its next episode."""
    with connection() as transport:
        print(Session(transport, session_id).suspend().state.value)


@app.command()
def resume(
    session_id: str,
    trainer_ranks: Annotated[
        int | None, typer.Option(help="Go on under so many trainer processes.")
    ] = None,
) -> None:
    """Bring a suspended session back."""
    with connection() as transport:
        print(Session(transport, session_id).resume(trainer_ranks=trainer_ranks).state.value)


def main() -> None:
    """The entry point: typed errors become one line on stderr and exit status 1."""
    try:
        app()
    except TinkerScriptError as failure:
        print(f"tinkerscript: {failure}", file=sys.stderr)
        sys.exit(1)
