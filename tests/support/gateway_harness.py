"""A whole gateway on loopback: real HTTP, real journal, real templates, fake engine."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx

from gpu_runtime.episodes.ledger import Episodes
from gpu_runtime.episodes.progress import EpisodeNoted
from gpu_runtime.errors import RuntimeFault
from gpu_runtime.events import Events
from gpu_runtime.gateway.app import create_app, serve
from gpu_runtime.journal.journal import Journal
from gpu_runtime.journal.records import EpisodeRecord
from gpu_runtime.rendering.renderer import Renderer
from support.fakes import FakeEngine
from support.light_tokenizer import LightTokenizer
from support.tiny_tokenizers import build_tokenizer
from tinkerscript.wire.config import SessionConfig
from tinkerscript.wire.episodes import EpisodeState
from tinkerscript.wire.runtime import Assignment

if TYPE_CHECKING:
    from openai import AsyncOpenAI

SESSION, MODEL, RELAY_KEY = "ses_test", "tiny-model", "relay-key"


def make_assignment(
    session_id: str = SESSION, signing_key: str = "ab" * 32, **config: Any
) -> Assignment:
    """An assignment whose groups are pairs and whose batches are two groups, unless ``config`` says
    otherwise.
    """
    defaults = {"grpo_n": 2, "tasks_per_batch": 2, "max_tokens": 32, "max_context_length": 512}
    return Assignment(
        session_id=session_id,
        base_model=MODEL,
        base_model_path="",
        config=SessionConfig(**(defaults | config)),
        public_url="http://server.test",
        episode_signing_key=signing_key,
        relay_key=RELAY_KEY,
        lease_seconds=15,
    )


def session_of(assignment: Assignment, advance: Callable[[], None] = lambda: None) -> Any:
    """As much of a session as loading needs; ``advance`` is called as it gets on."""
    config, status = SimpleNamespace(gpus=0), SimpleNamespace(advance=advance)
    agent = SimpleNamespace(preempt=lambda: None)
    return SimpleNamespace(assignment=assignment, config=config, status=status, agent=agent)


@dataclass
class Gateway:
    """A served gateway and what a test needs of its inside."""

    address: str
    episodes: Episodes
    engine: FakeEngine
    journal: Journal
    renderer: Renderer
    http: httpx.AsyncClient
    bus: Events
    clients: list["AsyncOpenAI"] = field(default_factory=list)
    faults: list[RuntimeFault] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)  # about episodes

    async def begin(self, **body: Any) -> dict[str, Any]:
        """A new episode as the wire answers it."""
        answer = await self.http.post("/episodes", json=body, headers={"X-Relay-Key": RELAY_KEY})
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def internal(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A request under the relay key."""
        return await self.http.request(method, path, headers={"X-Relay-Key": RELAY_KEY}, **options)

    async def end(self, episode_id: str, reward: float = 1.0, **output: Any) -> httpx.Response:
        """End an episode with a reward."""
        body = {"output": {"reward": reward, **output}}
        return await self.internal("POST", f"/episodes/{episode_id}/end", json=body)

    async def accounting(self) -> dict[str, Any]:
        """Where every episode is; checks that it balances."""
        found = await self.episodes.accounting()
        assert found.balances, found
        return found.model_dump()

    def check_balance(self) -> None:
        """begun = open + waiting + trained + eval + abandoned + expired + stale, counted here from
        the rows alone.
        """
        found = self.journal.episodes.accounting()
        assert found.balances, found
        rows = self.journal.episodes.page(limit=1_000_000)
        fates = Counter(_fate_of(row) for row in rows)
        shown = found.model_dump(exclude={"begun", "abandoned_by_reason"})
        assert (found.begun, {name: n for name, n in shown.items() if n}) == (
            len(rows),
            dict(fates),
        )
        reasons = Counter(row.reason for row in rows if row.state is EpisodeState.ABANDONED)
        assert found.abandoned_by_reason == dict(reasons)
        assert {row.id for row in rows if row.state is EpisodeState.OPEN} == {
            e.id for e in self.episodes.open.all()
        }, "memory and disk"
        batched = {e.id for e in self.journal.episodes.waiting()}
        assert batched == {*self.episodes.batches.waiting}, "memory and disk"

    def openai(self, begun: dict[str, Any]) -> "AsyncOpenAI":
        """The real client for an episode, without retries."""
        from openai import AsyncOpenAI  # a second of a test's start, which many tests do without

        client = AsyncOpenAI(
            base_url=f"http://{self.address}/v1", api_key=begun["api_key"], max_retries=0
        )
        self.clients.append(client)
        return client

    async def chat(self, begun: dict[str, Any], content: str = "hello", **options: Any) -> Any:
        """One completion through the real client."""
        messages = options.pop("messages", None) or [{"role": "user", "content": content}]
        return await self.openai(begun).chat.completions.create(
            model=MODEL, messages=messages, **options
        )

    async def raw_chat(
        self, key: str, headers: dict[str, str] | None = None, **body: Any
    ) -> httpx.Response:
        """One completion through plain HTTP."""
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]} | body
        headers = {"Authorization": f"Bearer {key}"} | (headers or {})
        return await self.http.post("/v1/chat/completions", json=body, headers=headers)


@asynccontextmanager
async def running_gateway(
    folder: Path,
    *,
    family: str = "chatml",
    now: Any = None,
    real: tuple[Any, Any] | None = None,
    **config: Any,
) -> AsyncIterator[Gateway]:
    """Serve a gateway whose journal is in ``folder``; a second one on the same folder is a restart.

    ``real``: an engine and its tokenizer instead of the fake ones.
    """
    assignment = make_assignment(**config)
    if real is not None:
        engine, tokenizer = real
    else:
        if not (folder / "model" / "tokenizer.json").exists():
            build_tokenizer(folder / "model", family)
        tokenizer = LightTokenizer(folder / "model")
        # It could take more than the session allows: what bounds a call is the option.
        engine = FakeEngine(tokenizer, context_length=2 * assignment.config.max_context_length)
    renderer = Renderer(tokenizer, config=assignment.config)
    clock = {"now": now} if now else {}
    journal = Journal(folder / "journal.sqlite3", **clock)
    events, bus = list[dict[str, Any]](), Events()
    bus.subscribe(EpisodeNoted, lambda event: events.append(event.data))
    episodes = Episodes(journal, assignment, events=bus, **clock)
    faults: list[RuntimeFault] = []
    erase = partial(episodes.erase, states=(0, 0))
    app = create_app(episodes, engine, renderer, assignment, on_fault=faults.append, erase=erase)
    await episodes.start()
    async with serve(app) as address:
        async with httpx.AsyncClient(base_url=f"http://{address}", timeout=30) as http:
            gateway = Gateway(
                address,
                episodes,
                engine,
                journal,
                renderer,
                http,
                bus,
                faults=faults,
                events=events,
            )
            try:
                yield gateway
            finally:
                for client in gateway.clients:
                    await client.close()
        await episodes.close()
        gateway.check_balance()
    journal.close()


def _fate_of(row: EpisodeRecord) -> str:
    if row.state is not EpisodeState.COMPLETED:
        return row.state.value
    return row.fate.value if row.fate else "waiting"
