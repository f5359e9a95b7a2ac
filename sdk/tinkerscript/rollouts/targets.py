"""Where ``report_to`` sends measures: a file of JSON lines, Weights & Biases, MLflow, TensorBoard.

As in Transformers, a run of the tracker that is active already is used, and stays open for what the
program logs next.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from tinkerscript.arguments import path_of, wrong
from tinkerscript.errors import InvalidRequest
from tinkerscript.wire.sessions import SessionView

Measures = Mapping[str, float]
ReportTo = str | PathLike[str] | Sequence[str | PathLike[str]] | None
PROJECT = "tinkerscript"


@dataclass(frozen=True)
class Target:
    """``log(measures, step)`` sends finite numbers; ``close()`` sends what is still in a buffer."""

    name: str
    log: Callable[[Measures, int], object]
    close: Callable[[], object] = lambda: None


def targets_check(report_to: ReportTo) -> list[tuple[str, Path | None]]:
    """The names in ``report_to``, each with the file that it names. Raises InvalidRequest for
    others.
    """
    wanted = (
        [report_to] if report_to is None or isinstance(report_to, str | PathLike) else report_to
    )
    if not isinstance(wanted, Sequence):
        raise wrong("report_to", report_to, KNOWN)
    # as Transformers takes it, alone or in a list
    if len(wanted) == 1 and wanted[0] in (None, "none"):
        return []
    return [_named(one) for one in wanted]


def targets_open(report_to: ReportTo, view: SessionView) -> list[Target]:
    """Every target, ready to log. Raises InvalidRequest for an unknown name and for a package that
    is not installed.
    """
    return [
        OPENERS[name](view) if path is None else _json_lines(path)
        for name, path in targets_check(report_to)
    ]


def _named(one: Any) -> tuple[str, Path | None]:
    if isinstance(one, str) and one in OPENERS:
        return one, None
    if isinstance(one, str | PathLike) and str(one).endswith(".jsonl"):
        return str(one), path_of("report_to", one)
    raise wrong("report_to", one, KNOWN)


def _json_lines(path: Path) -> Target:
    if not path.parent.is_dir():
        raise InvalidRequest(
            f"report_to={str(path)!r}: there is no folder {path.parent}.", hint="Make it first."
        )

    def log(measures: Measures, step: int) -> None:
        line = json.dumps(
            {"step": step, "at": datetime.now(UTC).isoformat(timespec="seconds"), **measures}
        )
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    return Target(str(path), log)


def _wandb(view: SessionView) -> Target:
    wandb = _package("wandb", "wandb")
    run = wandb.run
    if run is None:
        project = os.environ.get("WANDB_PROJECT", PROJECT)
        run = wandb.init(
            project=project,
            id=view.id,
            name=view.name or view.id,
            config=_options(view),
            resume="allow",
        )
    # A step axis of its own: the evaluation of a step comes after later steps were logged by
    # others.
    run.define_metric("train/*", step_metric="step")
    run.define_metric("eval/*", step_metric="step")
    return Target("wandb", lambda measures, step: run.log({**measures, "step": step}))


def _mlflow(view: SessionView) -> Target:
    mlflow = _package("mlflow", "mlflow")
    run = mlflow.active_run()
    if run is None:
        run = mlflow.start_run(run_name=view.name or view.id)
        mlflow.log_params(_options(view))
    # A run is active in one thread alone: in another the metrics would begin a run of their own.
    return Target(
        "mlflow",
        lambda measures, step: mlflow.log_metrics(
            dict(measures), step=step, run_id=run.info.run_id
        ),
    )


def _tensorboard(view: SessionView) -> Target:
    writer = _summary_writer()(str(Path("runs") / view.id))

    def log(measures: Measures, step: int) -> None:
        for name, value in measures.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return Target("tensorboard", log, writer.close)


def _summary_writer() -> Any:
    """The class of PyTorch where it and the tensorboard package are installed, else that of
    tensorboardX.
    """
    with contextlib.suppress(ImportError):
        return import_module("torch.utils.tensorboard").SummaryWriter
    return _package("tensorboardX", "tensorboard").SummaryWriter


def _package(package: str, name: str) -> Any:
    try:
        return import_module(package)
    except ImportError as missing:
        raise InvalidRequest(
            f"report_to={name!r} needs {package}, which is not installed ({missing}).",
            hint=f"pip install {package}",
        ) from missing


def _options(view: SessionView) -> dict[str, Any]:
    return {
        "session": view.id,
        "base_model": view.base_model,
        **view.config.model_dump(mode="json"),
    }


OPENERS: dict[str, Callable[[SessionView], Target]] = {
    "jsonl": lambda view: _json_lines(Path(f"{view.id}.jsonl")),
    "wandb": _wandb,
    "mlflow": _mlflow,
    "tensorboard": _tensorboard,
}
KNOWN = f"{', '.join(OPENERS)}, none, the path of a .jsonl file, or a list of these"
