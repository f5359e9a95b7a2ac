"""The command lines of lm-eval and Inspect, as docs/howto/evaluation.md has them, against a
checkpoint and its base.

Server and gateway are real, the engine is a fake that gives one of two right answers.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from clients.outside_agents import ENVIRONMENT
from clients.test_api_key_clients import Served, served

from support.factories import BASE_MODEL
from support.gateway_harness import MODEL, running_gateway

__all__ = ["served"]
PROGRAMS = Path(__file__).resolve().parents[2] / ".venv-evaluators" / "bin"
EVALUATOR_S = 240.0
ROWS = [
    {"question": "Which is red?", "answer": "cherry"},
    {"question": "Which is blue?", "answer": "sky"},
]
LM_EVAL_TASK = """
task: tiny
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{max_gen_toks: 16, until: ["\\n\\n"]}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""
CHOICE_TASK = """
task: tiny
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: [cherry, the sky and what is above it]
doc_to_target: 0
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""
INSPECT_TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate

@task
def tiny():
    rows = {rows}
    samples = [Sample(input=row["question"], target=row["answer"]) for row in rows]
    return Task(dataset=samples, solver=generate(), scorer=match())
"""
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.system,
    pytest.mark.timeout(300),
]
if not PROGRAMS.is_dir():
    pytest.skip(
        "the harnesses are not installed; `make test-all` installs them", allow_module_level=True
    )

of_what = pytest.mark.parametrize(
    "of", ["checkpoint", pytest.param("base model", marks=pytest.mark.nightly)]
)


async def run(served: Served, folder: Path, *command: str, **variables: str) -> str:
    """What a command printed, which has to end well, against an engine that says cherry."""
    served.words.answer = lambda prompt, options: [
        *served.words.encode("cherry"),
        served.words.end_id,
    ]
    return await run_program(folder, *command, **variables)


async def run_program(folder: Path, *command: str, **variables: str) -> str:
    """What a command printed, which has to end well."""
    offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1")
    environment = ENVIRONMENT | offline | {"HOME": str(folder), "HF_HOME": str(folder)} | variables
    environment["PATH"] = f"{PROGRAMS}{os.pathsep}{environment['PATH']}"
    process = await asyncio.create_subprocess_exec(
        str(PROGRAMS / command[0]), *command[1:], cwd=folder, env=environment, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(EVALUATOR_S):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, out.decode()[-6000:]
    return out.decode()


def lm_eval_results(folder: Path) -> dict[str, Any]:
    (file,) = (folder / "out").rglob("results_*.json")
    return json.loads(file.read_text())["results"]["tiny"]


def task_write(folder: Path, task: str) -> None:
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "tiny.yaml").write_text(task.format(rows=rows))


@of_what
async def test_lm_eval_scores_a_generation_task(served: Served, tmp_path: Path, of: str) -> None:
    task_write(tmp_path, LM_EVAL_TASK)
    model = served.path if of == "checkpoint" else BASE_MODEL
    await run(
        served, tmp_path, "lm_eval", "--model", "local-chat-completions", "--apply_chat_template", "--tasks", "tiny",
        "--model_args", f"model={model},base_url={served.url}/oai/api/v1/chat/completions,num_concurrent=2",
        "--include_path", ".", "--output_path", "out", OPENAI_API_KEY=served.secret,
    )  # fmt: skip
    assert lm_eval_results(tmp_path)["exact_match,none"] == 0.5
    assert len(served.words.requests) == 2


async def test_lm_eval_scores_choices_by_the_sessions_own_tokenizer(tmp_path: Path) -> None:
    """To this engine each token is less likely than the one before it: of two answers the shorter
    is likelier.
    """
    task_write(tmp_path, CHOICE_TASK)
    async with running_gateway(tmp_path / "gateway", max_context_length=2048) as gateway:
        begun = await gateway.begin(eval=True)
        address = f"http://{gateway.address}/v1/completions"
        await run_program(
            tmp_path, "lm_eval", "--model", "local-completions", "--tasks", "tiny", "--include_path", ".",
            "--output_path", "out", "--model_args",
            f"model={MODEL},base_url={address},tokenizer_backend=remote,auth_token={begun['api_key']}",
            OPENAI_API_KEY=begun["api_key"],
        )  # fmt: skip
        assert lm_eval_results(tmp_path)["acc,none"] == 1.0
        read = {gateway.renderer.decode(request.prompt_ids) for request in gateway.engine.requests}
        assert {f"{row['question']} cherry" for row in ROWS} <= read


@of_what
async def test_inspect_scores_a_task(served: Served, tmp_path: Path, of: str) -> None:
    (tmp_path / "tiny.py").write_text(INSPECT_TASK.format(rows=ROWS))
    model = served.path if of == "checkpoint" else BASE_MODEL
    said = await run(
        served, tmp_path, "inspect", "eval", "tiny.py", "--model", f"openai-api/local/{model}", "--display", "plain",
        "--model-base-url", f"{served.url}/oai/api/v1", "--log-format", "json", LOCAL_API_KEY=served.secret,
    )  # fmt: skip
    (log,) = (tmp_path / "logs").glob("*.json")
    (score,) = json.loads(log.read_text())["results"]["scores"]
    assert score["metrics"]["accuracy"]["value"] == 0.5, said
