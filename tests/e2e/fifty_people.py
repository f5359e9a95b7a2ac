"""Fifty people, each with an account and a session of their own, on one machine at once.

    python tests/e2e/fifty_people.py --people 50 --at-once 4            some minutes on two cores

Real: ``manage.py up`` with its web server, reconciler and object store, the process launcher, the
whole runtime but for its engine and trainer, sign-up as in a browser, and the SDK. The first person
queues more sessions than they may have before anyone else comes. What must be true then:

- each gets an account, a key and a session, whatever the others do; what is beyond a person's limit is refused;
- while others wait for a place, the first person gets none beside one that they have;
- no one reads, plays, changes or ends what is another's, while it runs and after it has ended; lists have one's own.
"""

import argparse
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "sdk"), str(ROOT / "tests")]

from e2e.loop_server import BASE_MODEL, until  # noqa: E402
from e2e.playing import play  # noqa: E402
from e2e.storm_server import StormServer  # noqa: E402

from tinkerscript import TinkerScript  # noqa: E402

PAIR = 2  # episodes of a step
CONFIG = {"grpo_n": PAIR, "tasks_per_batch": 1, "max_context_length": 512, "max_tokens": 16}
PASSWORD = "a long enough passphrase"
PATIENCE_S = 1800.0
JSON_S = 60.0
GREED = 3  # sessions of the first person beyond the places


@dataclass
class Person:
    """Somebody with a browser, a key and sessions. ``plain`` asks with the key."""

    name: str
    plain: httpx.Client
    key: str
    sessions: list[str] = field(default_factory=list)


@dataclass
class Fifty:
    """One run; ``wrong`` has a sentence for each promise that was broken."""

    server: StormServer
    people: list[Person] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    refused: int = 0  # requests for what is another's, and sessions beyond the limit

    def run(self, *, people: int, at_once: int) -> None:
        with ThreadPoolExecutor(people + at_once + GREED) as pool:
            self.people = list(pool.map(self._come, range(people)))
            first, *others = self.people
            for _ in range(at_once + GREED):
                self._queue(first)
            until(
                lambda: self._running(first) == at_once,
                "the first person has every place",
                PATIENCE_S,
            )
            beyond = first.plain.post("/v1/sessions", json={"base_model": BASE_MODEL})
            self._expect(
                beyond.status_code == 429, f"a session beyond the limit: {beyond.status_code}"
            )
            list(pool.map(self._queue, others))
            list(
                pool.map(
                    lambda of: self._live(*of),
                    [(each, own) for each in self.people for own in each.sessions],
                )
            )
        self._check_starts(first, at_once)
        for person, another in self._pairs():
            self._check_own(person)
            self._check_foreign(person, another, while_it="has ended")

    def _come(self, number: int) -> Person:
        """Sign up as a browser does, from an address of one's own, and make a key."""
        name = f"person-{number:02}"
        headers = {"X-Forwarded-For": f"198.51.{number}.7"}
        with httpx.Client(base_url=self.server.url, headers=headers, timeout=JSON_S) as browser:
            browser.get("/signin")
            browser.headers["X-CSRFToken"] = browser.cookies["csrftoken"]
            wanted = {"email": f"{name}@example.org", "password": PASSWORD}
            browser.post("/_allauth/browser/v1/auth/signup", json=wanted).raise_for_status()
            browser.headers["X-CSRFToken"] = browser.cookies["csrftoken"]
            key = browser.post("/v1/keys", json={"name": name}).raise_for_status().json()["secret"]
        bearer = headers | {"Authorization": f"Bearer {key}"}
        return Person(
            name, httpx.Client(base_url=self.server.url, headers=bearer, timeout=JSON_S), key
        )

    def _queue(self, person: Person) -> None:
        wanted = {"base_model": BASE_MODEL, "name": person.name, "config": CONFIG}
        made = person.plain.post("/v1/sessions", json=wanted)
        self._expect(made.status_code == 201, f"{person.name} gets no session: {made.text}")
        person.sessions.append(made.json()["id"])

    def _live(self, person: Person, session_id: str) -> None:
        """Play a step's episodes on tasks of one's own, while a neighbour tries to reach them."""
        with TinkerScript(
            session_id=session_id, base_url=self.server.url, api_key=person.key,
            wait_timeout_s=PATIENCE_S, begin_timeout_s=PATIENCE_S, retry_timeout_s=PATIENCE_S,
        ) as remote:  # fmt: skip
            play(remote, f"the secret of {person.name}", PAIR)
            neighbour = self.people[self.people.index(person) - 1]
            self._check_foreign(neighbour, person, while_it="runs", session_id=session_id)
            remote.close(timeout_s=PATIENCE_S)

    def _pairs(self) -> list[tuple[Person, Person]]:
        return [(person, self.people[number - 1]) for number, person in enumerate(self.people)]

    def _check_own(self, person: Person) -> None:
        listed = self._items(person, "/v1/sessions?limit=100")
        self._expect(
            {each["id"] for each in listed} == set(person.sessions), f"{person.name} lists {listed}"
        )
        for session_id in person.sessions:
            view = person.plain.get(f"/v1/sessions/{session_id}").json()
            self._expect(
                (view["state"], view["policy_version"]) == ("stopped", 1),
                f"{person.name}'s ended as {view}",
            )
            tasks = [
                each["task"] for each in self._items(person, f"/v1/sessions/{session_id}/episodes")
            ]
            self._expect(
                tasks == [f"the secret of {person.name}"] * PAIR,
                f"{person.name} has the tasks {tasks}",
            )

    def _check_foreign(
        self, person: Person, owner: Person, *, while_it: str, session_id: str = ""
    ) -> None:
        """``person`` tries what there is to do with a session of ``owner``."""
        path = f"/v1/sessions/{session_id or owner.sessions[0]}"
        tried: list[tuple[str, str, Any]] = [
            ("GET", path, None), ("GET", f"{path}/events", None), ("GET", f"{path}/logs", None),
            ("GET", f"{path}/episodes", None), ("GET", f"{path}/checkpoints", None), ("POST", f"{path}/stop", {}),
            ("POST", f"{path}/episodes", {}), ("POST", f"{path}/checkpoints", {}), ("DELETE", path, None),
            ("PATCH", path, {"name": "mine"}), ("POST", f"{path}/suspend", {}), ("GET", f"{path}/metrics", None),
        ]  # fmt: skip
        for method, address, body in tried:
            status = person.plain.request(method, address, json=body).status_code
            self.refused += status == 404
            self._expect(
                status == 404,
                f"{person.name}: {method} {address} of {owner.name}, which {while_it}: {status}",
            )

    def _check_starts(self, first: Person, at_once: int) -> None:
        """While others wait for a place, the first person gets none beside one that they have."""
        spans = [
            (self._moved(first, own, "provisioning"), self._moved(first, own, "stopped"))
            for own in first.sessions
        ]
        last = max(
            self._moved(each, own, "provisioning")
            for each in self.people[1:]
            for own in each.sessions
        )
        for began, _ in sorted(spans)[at_once:]:
            beside = sum(other < began < ended for other, ended in spans)
            self._expect(
                not beside or began > last,
                f"{first.name} got a place at {began}, beside {beside}, of {spans}",
            )

    def _running(self, person: Person) -> int:
        return sum(
            each["state"] != "queued" for each in self._items(person, "/v1/sessions?limit=100")
        )

    def _moved(self, person: Person, session_id: str, state: str) -> str:
        events = self._items(person, f"/v1/sessions/{session_id}/events?kind=state&limit=1000")
        return next(event["at"] for event in events if event["data"]["to"] == state)

    def _items(self, person: Person, path: str) -> list[dict[str, Any]]:
        return person.plain.get(path).raise_for_status().json()["items"]

    def _expect(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            self.wrong.append(otherwise)


def table(fifty: Fifty, took_s: float) -> str:
    """What happened, in figures."""
    sessions = [own for person in fifty.people for own in person.sessions]
    rows = [
        ("people", str(len(fifty.people))),
        ("sessions", str(len(sessions))),
        ("requests for another's that were refused", str(fifty.refused)),
        ("seconds", f"{took_s:.0f}"),
        ("broken promises", str(len(fifty.wrong))),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def main() -> int:
    """0 when every promise was kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=4, help="runtimes that may run at a time")
    wanted = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fifty-people-"))
    server, began = StormServer(folder, at_once=wanted.at_once), time.monotonic()
    server.environment |= {
        "TINKERSCRIPT_TRUSTED_PROXIES": "1",  # each comes from an address of their own
        "TINKERSCRIPT_LIMITS": f"sessions={wanted.at_once + GREED}",
    }
    fifty = Fifty(server)
    try:
        server.start()
        fifty.run(people=wanted.people, at_once=wanted.at_once)
    finally:
        for person in fifty.people:
            person.plain.close()
        server.close()
    print("\n".join(fifty.wrong[:40]))
    print(table(fifty, time.monotonic() - began))
    if fifty.wrong:
        print(f"FAILED; everything of it is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
