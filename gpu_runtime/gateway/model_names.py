"""The names that a session's model goes by in the dialects."""

from gpu_runtime.refusals import NotFound
from tinkerscript.wire.runtime import Assignment


class ModelNames:
    """The base model's name, the session's id, that of the checkpoint that it serves, and those of
    ``model_names``. A name that is not the model's own says the call's agent, unless the call names
    one.
    """

    def __init__(self, assignment: Assignment) -> None:
        names = assignment.config.model_names
        self._agents = names if isinstance(names, dict) else {}
        self._own = [assignment.base_model, assignment.session_id]
        if assignment.serves is not None:
            self._own.insert(0, assignment.serves.checkpoint_id)
        self.listed = list(dict.fromkeys([*self._own, *self._agents]))
        self._takes_any = names == "any"

    def check(self, name: str) -> None:
        """Raises NotFound for a model that is not this session's."""
        if name not in self.listed and not self._takes_any:
            served = ", ".join(map(repr, [self._own[0], *self._agents]))
            raise NotFound(
                f"the model {name!r} does not exist here; this session serves {served}",
                hint=f"Name that one, or create the session with model_names='any' or {{{name!r}: "
                f"'its agent'}}.",
                param="model",
                openai_code="model_not_found",
            )

    def agent_of(self, name: str) -> str | None:
        """The agent that a call of the model ``name`` is of."""
        return self._agents.get(name, name) if name not in self._own and name else None
