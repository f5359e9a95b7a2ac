"""The job of the families expects of each what docs/models.md has of it, and fails on any other."""

import pytest

from support.family_outcomes import CELLS, DTYPES, KNOWN, WIDE, Outcome, measured, outcome_judge
from support.model_families import ALL, REFUSED

CLOSE, FAR = (2e-6, 3e-6, 2e-6), (8.1e-4, 1.1e-3, 1e-3)
ENDED = "the engine's process ended with exit code 1 (the runtime's log says why) while generating"


@pytest.mark.parametrize("name", KNOWN)
def test_a_family_whose_engine_is_known_to_end_holds_with_that_reason_alone(name: str) -> None:
    known = KNOWN[name]
    found = outcome_judge(name, Outcome(code=known.code, words=ENDED, printed=f"x {known.words}."))
    assert found.held and found.row == f"{known.code}: {known.words}" + " |" * CELLS
    assert outcome_judge(name, Outcome(code=known.code, words=f"{known.words} on")).held
    others = [
        Outcome(code=known.code, words=ENDED, printed="another reason"),
        Outcome(code="no_progress", words=known.words),
        Outcome(refusal="this model: field is 1, so"),
        Outcome(gaps=CLOSE),
    ]
    assert not any(outcome_judge(name, other).held for other in others)


def test_a_family_that_is_above_the_bound_holds_within_its_own_alone() -> None:
    assert outcome_judge("Bloom", Outcome(gaps=FAR)).held
    for gaps in (CLOSE, (1e-2, 1e-3, 1e-3), (float("nan"),) * 3):
        assert not outcome_judge("Bloom", Outcome(gaps=gaps)).held


def test_any_other_family_agrees_or_is_refused() -> None:
    assert outcome_judge("Llama", Outcome(gaps=CLOSE)).held
    assert not outcome_judge("Llama", Outcome(gaps=FAR)).held
    assert not outcome_judge("Llama", Outcome(gaps=CLOSE, gradient=1e-3)).held
    assert outcome_judge("Llama", Outcome(gaps=CLOSE, same=True)).held
    assert not outcome_judge("Llama", Outcome(gaps=CLOSE, same=False)).held
    assert not outcome_judge("Llama", Outcome(code="engine_dead", words=ENDED)).held
    assert not outcome_judge("Llama", Outcome(refusal="x: field is 1, so")).held
    for name in REFUSED:
        assert outcome_judge(name, Outcome(refusal="x: field is 1, so")).held
        assert not outcome_judge(name, Outcome(gaps=CLOSE)).held


def test_the_page_has_of_each_family_what_the_job_expects() -> None:
    for name, row in measured().items():
        if name in KNOWN:
            assert row.startswith(f"{KNOWN[name].code}: {KNOWN[name].words} ")
        elif name in WIDE:
            gaps = tuple(float(cell) for cell in row.split("|")[1:4] if cell.strip())
            assert row.startswith(outcome_judge(name, Outcome(gaps=gaps)).row.split(" | ")[0])
        elif name in DTYPES:
            assert row.startswith(f"rehearsal held, in {DTYPES[name]} | ")
        else:
            assert row.startswith("refused at creation: " if name in REFUSED else "agree | ")
    assert set(measured()) == set(ALL)
