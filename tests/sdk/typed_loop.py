"""A user's program, for type checkers; test_typing.py runs them over it. It is never run."""

from tinkerscript import AsyncTinkerScript, Budget, TinkerScript, WorkflowOutput


def agent(task: str, base_url: str, api_key: str) -> WorkflowOutput:
    return WorkflowOutput(reward=float(len(task + base_url + api_key)), is_success=True)


def train() -> str:
    with TinkerScript(
        "SmolLM2", learning_rate=1e-5, grpo_n=4, loss="dapo", priority=3, budget=Budget(steps=9)
    ) as session:
        episode = session.begin_episode(task="3+4", eval=False, timeout=30.0)
        base_url, api_key = episode
        view = session.end_episode(agent("3+4", base_url, api_key))
        if view.reward is not None and view.reward > 0:
            print(view.reward + 1)
        with session.episode("5+6") as (base_url, api_key):
            session.end_episode(agent("5+6", base_url, api_key))
        report = session.rollouts(
            lambda task, episode: agent(str(task), *episode), ["a", "b"], workers=4
        )
        print(report.mean, report.table())
        return str(session.download_tuned_model().path)


async def train_async() -> float:
    async with AsyncTinkerScript("SmolLM2", grpo_n=4) as session:
        async with session.episode("3+4") as (base_url, api_key):
            view = await session.end_episode(agent("3+4", base_url, api_key))
        return view.reward or 0.0
