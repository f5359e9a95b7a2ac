"""Options of a running session that change between two steps: which values it can take."""

import asyncio
from collections.abc import Mapping

from pydantic import ValidationError

from gpu_runtime.episodes.batches import Batches
from gpu_runtime.journal.journal import Journal
from gpu_runtime.refusals import BadRequest, OutputConflict
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.changes import ConfigChange, ConfigUpdate


class ConfigChanges:
    """``config`` is what the session began with."""

    def __init__(self, journal: Journal, config: SessionConfig, batches: Batches) -> None:
        self._journal, self._config, self._batches = journal, config, batches

    async def change(self, wanted: ConfigUpdate, caller: str) -> ConfigChange:
        """Let the options that are given hold from the next step on; on disk when this returns.

        A batch that is in the journal keeps the options of its step. Raises BadRequest,
        OutputConflict where no step follows.
        """
        options: dict[str, float] = wanted.model_dump(exclude_unset=True)
        if self._batches.is_over:
            raise OutputConflict(
                f"max_steps ({self._config.max_steps}) is reached: no step follows",
                hint="Start another session from a checkpoint of this one.",
            )
        async with self._batches.before_next() as step:
            check(self._config, await self._batches.config_at(step), options)
            record = self._journal.changes.record
            return await asyncio.to_thread(record, step, self._config, options, caller)


def check(began: SessionConfig, now: SessionConfig, options: Mapping[str, float]) -> None:
    """Raises BadRequest for values that this session cannot take; nothing was changed."""
    if options.get("kl_coef") and not began.kl_coef and not began.lora_rank:
        raise BadRequest(
            "kl_coef: this session began with 0 and has loaded no reference",
            param="kl_coef",
            hint="Start a session with a kl_coef above 0 from a checkpoint of this one: its "
            "reference is the base model again.",
        )
    try:
        SessionConfig.model_validate({**now.model_dump(), **options})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        name = ".".join(map(str, first["loc"]))
        why = first["msg"].removeprefix("Value error, ")  # pydantic's own words
        said = f"{', '.join(options)} cannot change so: {name}: {why}"
        raise BadRequest(said, param=next(iter(options))) from None
