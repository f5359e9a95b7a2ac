"""A request to a runtime's gateway, as the relay passes one on for an agent."""

from typing import Any

import httpx


async def gateway_post(
    http: httpx.AsyncClient, address: str, path: str, body: dict[str, Any], key: str = ""
) -> Any:
    """The answer's JSON; ``key`` is an episode's. A begin that was held as long as one may be is
    asked again, as the SDK does. Raises httpx.HTTPStatusError.
    """
    headers = {"X-Relay-Key": "relay"} | ({"Authorization": f"Bearer {key}"} if key else {})
    while True:
        answer = await http.post(f"http://{address}{path}", json=body, headers=headers)
        if answer.status_code != 503:
            break
    answer.raise_for_status()
    return answer.json()
