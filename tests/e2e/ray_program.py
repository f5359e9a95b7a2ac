"""Six Ray workers play the episodes of one session: ``python ray_program.py``, with the server in
the environment.

Each remote task gets the session by pickle and plays all attempts at one task. The last line of
output is JSON.
"""

import json
import os
import zlib

import ray
from openai import OpenAI

from tinkerscript import EpisodeClosed, TinkerScript, WorkflowOutput

WORKERS, ATTEMPTS = 6, 4


@ray.remote(num_cpus=1)
def play(session: TinkerScript, task: str) -> tuple[int, list[tuple[str, float]]]:
    """The worker's process, and the id and reward of each episode that it ended."""
    ended = []
    for _ in range(ATTEMPTS):
        with (
            session.episode(task) as (base_url, api_key),
            OpenAI(base_url=base_url, api_key=api_key) as client,
        ):
            messages = [{"role": "user", "content": f"Tell me about {task}."}]
            answer = client.chat.completions.create(
                model=session.base_model, messages=messages, max_tokens=16
            )
            reward = zlib.crc32((answer.choices[0].message.content or "").encode()) / 2**32
            ended.append((session.end_episode(WorkflowOutput(reward=reward)).episode_id, reward))
    return os.getpid(), ended


@ray.remote(num_cpus=1)
def fail(session: TinkerScript) -> None:
    """An exception of the client, for the driver to catch."""
    with session.episode("failing") as episode:
        episode.abandon("to see what comes back")
        episode.end(1.0)


def main() -> None:
    ray.init(
        num_cpus=WORKERS,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        _node_ip_address="127.0.0.1",
    )
    with TinkerScript(
        os.environ["BASE_MODEL"], grpo_n=ATTEMPTS, tasks_per_batch=WORKERS
    ) as session:
        done = ray.get(
            [play.remote(session, f"task {number}") for number in range(WORKERS)], timeout=240
        )
        try:
            ray.get(fail.remote(session), timeout=60)
            error = ""
        except EpisodeClosed as closed:
            error = str(closed)
        accounting = session.flush()
        state = session.status().state.value
        session_id = session.id
    ray.shutdown()
    told = {"session_id": session_id, "done": done, "error": error, "state": state}
    print("\n" + json.dumps(told | {"accounting": accounting.model_dump(mode="json")}))


if __name__ == "__main__":
    main()
