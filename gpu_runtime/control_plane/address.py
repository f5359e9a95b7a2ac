"""The address under which the control plane reaches a runtime."""

import socket
from urllib.parse import urlsplit

from gpu_runtime.config import RuntimeConfig

EVERYWHERE = "0.0.0.0"


def address_advertise(config: RuntimeConfig, listening: str) -> str:
    """What heartbeats say: the configured address, else ``listening`` ("host:port") as the control
    plane would dial it.

    A gateway that listens everywhere is reached over the interface that leads to the control plane.
    Raises OSError when no route leads there.
    """
    if config.address:
        return config.address
    host, _, port = listening.rpartition(":")
    if host != EVERYWHERE:
        return listening
    server = urlsplit(config.server_url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((server.hostname, server.port or 80))  # sends nothing: it picks the route
        return f"{probe.getsockname()[0]}:{port}"
