"""The names that an agent's calls may give the model, for teams of agents that name several."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

MAX_NAMES, MAX_NAME, MAX_AGENT = 64, 256, 128


def _checked(value: Any) -> Any:
    """One error in words, where a union would report each of its members."""
    if value in ("own", "any"):
        return value
    if not isinstance(value, dict) or not 1 <= len(value) <= MAX_NAMES:
        raise ValueError(f"'own', 'any', or a map of 1 to {MAX_NAMES} names to their agents")
    for name, agent in value.items():
        for said, most in ((name, MAX_NAME), (agent, MAX_AGENT)):
            if not isinstance(said, str) or not 1 <= len(said) <= most:
                raise ValueError(
                    f"a name is a text of 1 to {MAX_NAME} characters, an agent's of 1 to "
                    f"{MAX_AGENT}"
                )
    return value


# A map holds the agent that each name is the model of. The session's model has its own names in any
# case.
ModelNames = Annotated[Literal["own", "any"] | dict[str, str], BeforeValidator(_checked)]
