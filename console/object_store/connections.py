"""The connections of boto3's client, each verified before anything is sent: the store's port may be
another user's."""

from typing import Any

from tinkerscript.processes.port_owner import StrangersPort, pool_checked


def checked(client: Any) -> Any:
    """This client, whose connections are verified from now on."""
    # One dictionary for its own connections, and those by a proxy.
    pools = client._endpoint.http_session._pool_classes_by_scheme  # noqa: SLF001
    pools["http"] = pool_checked(pools["http"])
    return client


def strangers_port(error: BaseException | None) -> str:
    """What was found at the store's port, behind the error that boto3 makes of it; empty where it
    is our store."""
    while error is not None and not isinstance(error, StrangersPort):
        error = error.__cause__ or error.__context__
    return str(error) if error else ""
