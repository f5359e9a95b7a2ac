"""What is said of episodes that became too old names a change that the session can take."""

import pytest

from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.training.advice import MAX_STALENESS, stale_advice


@pytest.mark.parametrize(
    ("staleness", "said"),
    [(0, "or set max_staleness=1"), (1, "raise max_staleness, which is 1"), (16, "the most")],
)
def test_the_advice_is_one_that_changes_something(staleness: int, said: str) -> None:
    assert said in stale_advice(SessionConfig(max_staleness=staleness).max_staleness)


def test_the_most_is_that_of_the_configuration() -> None:
    with pytest.raises(ValueError, match=f"less than or equal to {MAX_STALENESS}"):
        SessionConfig(max_staleness=MAX_STALENESS + 1)
