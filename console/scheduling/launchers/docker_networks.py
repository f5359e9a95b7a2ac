"""Networks of runtimes in a Docker Engine, on which the server reaches them and they do not reach
one another.

One that this module made keeps its containers apart by itself, and the server is on the engine's
host. Where the server is in containers, as with Compose, they share a network that the launcher did
not make, and what reached one on it would reach all: each runtime then has a network of its own,
which the server's containers join under their names.
"""

import contextlib
import time
from collections.abc import Collection, Iterator
from typing import Any

import docker
from docker.errors import APIError, NotFound
from docker.models.networks import Network

from console.scheduling.launchers.protocol import launch_session

LAUNCH, SESSION = "tinkerscript.launch", "tinkerscript.sessions.session"  # labels
# docker/compose.yaml names the same
DOCKER_NETWORK = "tinkerscript-runtimes"
UNUSED_S = 60.0  # longer than a container is being made on its network
ICC = "com.docker.network.bridge.enable_icc"


class RuntimeNetworks:
    """``shared`` is DOCKER_NETWORK, but in tests."""

    def __init__(self, client: docker.DockerClient, shared: str) -> None:
        self._client, self._shared = client, shared
        self._joined: frozenset[str] = frozenset()
        self._unused: dict[str, float] = {}  # since when, by launch

    def own_name(self, launch: str) -> str:
        """Behind ``shared`` in the alphabet, in which an engine chooses a container's way to the
        world.
        """
        return f"{self._shared}-{launch}"

    def make(self, launch: str) -> str:
        """The network that a runtime is to be on, with the server on it; its name."""
        shared = self._get(self._shared)
        if shared is None:
            self._create(self._shared, options={ICC: "false"})
            return self._shared
        if _is_apart(shared):
            return self._shared
        name = self.own_name(launch)
        self._create(
            name,
            labels={LAUNCH: launch, SESSION: launch_session(launch)},
            internal=shared.attrs.get("Internal", False),
        )
        for server in _servers(shared):
            self._join(self._client.networks.get(name), server)
        return name

    def address(self, seen: dict[str, Any]) -> str:
        """A container's own, as the engine lists it; empty where it has none."""
        networks = seen.get("NetworkSettings", {}).get("Networks") or {}
        names = (self.own_name(seen["Labels"][LAUNCH]), self._shared)
        return next(
            (host for name in names if (host := networks.get(name, {}).get("IPAddress"))), ""
        )

    def keep_joined(self) -> None:
        """Bring the server's present containers into the networks of runtimes: those of a new
        version are others.
        """
        shared = self._get(self._shared)
        if shared is None or _is_apart(shared):
            return
        servers = _servers(shared)
        if self._joined >= servers:
            return
        for network in self._client.networks.list(filters={"label": LAUNCH}):
            if str(network.name).startswith(f"{self._shared}-"):
                for server in servers - self._joined:
                    self._join(network, server)
        self._joined = servers

    def remove(self, launch: str) -> None:
        """That of a runtime which has ended, if it had one of its own."""
        network = self._get(self.own_name(launch))
        if network is None:
            return
        for joined in network.attrs.get("Containers") or {}:
            with _fine(404, 500):  # it has left meanwhile
                network.disconnect(joined, force=True)
        with _fine(404):
            network.remove()

    def clear(self, launches: Collection[str]) -> None:
        """Remove what stayed of launches that are not among ``launches``: those with a container,
        or just being made.

        Nothing else does where a container was removed by hand and its session is not ended by its
        handle any more.
        """
        listed = self._client.networks.list(filters={"label": LAUNCH})
        named = {str(network.name): network.attrs["Labels"][LAUNCH] for network in listed}
        own = {launch for name, launch in named.items() if name == self.own_name(launch)}
        now = time.monotonic()
        self._unused = {launch: self._unused.get(launch, now) for launch in own - set(launches)}
        for launch, since in self._unused.items():
            if now - since >= UNUSED_S:
                self.remove(launch)

    def _get(self, name: str) -> Network | None:
        try:
            return self._client.networks.get(name)
        except NotFound:
            return None

    def _create(self, name: str, **options: Any) -> None:
        try:
            self._client.networks.create(name, driver="bridge", check_duplicate=True, **options)
        except APIError as error:
            if error.status_code != 409:
                raise OSError(f"the engine makes no network {name}: {error.explanation}") from error

    def _join(self, network: Network, server: str) -> None:
        with _fine(403, 404, 409):  # it is there already, or has ended
            known = self._client.api.inspect_container(server)["NetworkSettings"]["Networks"]
            aliases: Collection[str] = known.get(self._shared, {}).get("Aliases") or []
            network.connect(server, aliases=list(aliases))


def _servers(shared: Network) -> frozenset[str]:
    """Ids of the containers that are on it."""
    return frozenset(shared.attrs.get("Containers") or {})


def _is_apart(network: Network) -> bool:
    """Whether its containers do not reach one another, or it is of a kind whose maker has to see to
    that.
    """
    return (
        network.attrs["Driver"] != "bridge"
        or (network.attrs.get("Options") or {}).get(ICC) == "false"
    )


@contextlib.contextmanager
def _fine(*statuses: int) -> Iterator[None]:
    try:
        yield
    except APIError as error:
        if error.status_code not in statuses:
            raise
