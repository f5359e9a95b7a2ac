"""A grammar that takes too much to be made is refused, of every kind, and costs no other call
anything.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_runtime.engine.grammars.trial import GrammarTrial
from gpu_runtime.engine.vllm_output import engine_parameters
from gpu_runtime.errors import EngineBusy, RequestRefused
from gpu_runtime.generation.engine_options import StructuredOutputs
from gpu_runtime.interfaces import SamplingOptions

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

MODEL = Path(__file__).parents[2] / ".data" / "models" / "SmolLM2-135M-Instruct"
CPU_S = 5.0  # twice what the largest of MADE takes on a slow core
COUNTED = "([a-z]{1,10}){1,100}"
ENDLESS: dict[str, dict[str, Any]] = {
    "json": {
        "json": {
            "type": "object",
            "properties": {"a": {"type": "string", "pattern": f"^{COUNTED}$"}},
        }
    },
    "regex": {"regex": COUNTED},
    "grammar": {"grammar": "root ::= a{1,10}\na ::= b{1,10}\nb ::= c{1,10}\nc ::= [a-z]{1,10}\n"},
    "grammar that reads a text in many ways": {"grammar": "root ::= s\ns ::= s s | [a-z]+\n"},
    "grammar of many words": {
        "grammar": "root ::= " + " | ".join(f'"{i * 7919:x}"' for i in range(300_000)) + "\n"
    },
    "structural tag": {
        "structural_tag": {
            "type": "structural_tag",
            "format": {"type": "regex", "pattern": COUNTED},
        }
    },
}
MADE: dict[str, dict[str, Any]] = {
    "json": {"json": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 200}}}},
    "regex": {"regex": "([a-z]{1,10},){1,20}"},
    "grammar": {"grammar": 'root ::= "yes" | "no" root'},
    "choice": {"choice": ["yes", "no"]},
}


def key(**asked: Any) -> tuple[Any, str]:
    """What vLLM is given for ``structured_outputs`` of a request."""
    from vllm.v1.structured_output.request import get_structured_output_key

    wanted = StructuredOutputs(**asked)
    options = SamplingOptions(
        max_tokens=8, json_schema=wanted.json_schema, structural_tag=wanted.tag
    )
    structured = engine_parameters(options, with_raw=False).structured_outputs
    assert structured is not None
    return get_structured_output_key(structured)


@pytest.fixture(scope="module")
def vllm_config() -> SimpleNamespace:
    """What the trial reads of vLLM's. How long a grammar takes depends on the vocabulary: it is a
    real one.
    """
    from vllm.config import ModelConfig

    if not (MODEL / "tokenizer.json").is_file():
        pytest.skip("the base model is not there: requirements/install.sh model")
    return SimpleNamespace(
        model_config=ModelConfig(model=str(MODEL)),
        structured_outputs_config=SimpleNamespace(disable_any_whitespace=False),
        speculative_config=None,
        device_config=SimpleNamespace(device_type="cpu"),
    )


@pytest.fixture(scope="module")
def trial(vllm_config: SimpleNamespace) -> Iterator[GrammarTrial]:
    trial = GrammarTrial(vllm_config, cpu_s=CPU_S)
    yield trial
    trial.close()


@pytest.mark.parametrize("name", ENDLESS)
async def test_a_grammar_without_an_end_in_sight_is_refused_with_what_to_do(
    name: str, trial: GrammarTrial
) -> None:
    asked = key(**ENDLESS[name])
    with pytest.raises(
        RequestRefused, match=rf"within {CPU_S:g} s of a core.*fewer and smaller counts"
    ):
        await trial.check(asked)
    began = time.process_time()
    with pytest.raises(RequestRefused, match="cannot be made and followed"):  # which is known now
        await trial.check(asked)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("name", MADE)
async def test_a_grammar_that_is_soon_made_is_taken(name: str, trial: GrammarTrial) -> None:
    await trial.check(key(**MADE[name]))


async def test_a_grammar_that_is_none_is_left_to_the_engines_own_words(trial: GrammarTrial) -> None:
    await trial.check(key(grammar="this is none"))


async def test_the_loop_runs_on_and_a_call_that_waited_too_long_is_told_to_come_again(
    trial: GrammarTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asyncio.create_task(trial.check(key(grammar=ENDLESS["grammar"]["grammar"] + "\n")))
    ticks = 0
    while not first.done():
        ticks += 1
        if ticks == 5:
            monkeypatch.setattr("gpu_runtime.engine.grammars.trial.WAIT_S", 0.2)
            with pytest.raises(EngineBusy, match="other new grammars"):
                await trial.check(key(grammar='root ::= "behind it"'))
        await asyncio.sleep(0.1)
    assert ticks > 5
    with pytest.raises(RequestRefused, match="cannot be made and followed"):
        await first


async def test_close_ends_the_process_while_it_compiles(vllm_config: SimpleNamespace) -> None:
    trial = GrammarTrial(vllm_config, cpu_s=1000.0)
    await trial.check(key(regex="[a-z]"))
    process = Path(f"/proc/{trial.pid}")
    waiting = asyncio.create_task(trial.check(key(regex=COUNTED)))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    await asyncio.to_thread(trial.close)
    await asyncio.gather(waiting, return_exceptions=True)
    assert time.monotonic() - began < 10 and not process.exists()
