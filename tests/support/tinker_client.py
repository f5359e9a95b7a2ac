"""A Tinker client of one key, as bare requests to the server's application."""

import json
from typing import Any

from console.asgi import application
from support.asgi_calls import Call
from support.factories import BASE_MODEL


class Client:
    """``send`` returns status and parsed body; ``post`` and ``get`` check the status."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        raw = (
            body
            if isinstance(body, bytes)
            else json.dumps(body).encode()
            if body is not None
            else b""
        )
        call = Call(application, method, f"/api/v1/{path}", body=raw, x_api_key=self.secret)
        status, _, answer = await call.answer()
        return status, json.loads(answer) if answer else None

    async def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        found, answer = await self.send("POST", path, body or {})
        assert found == status, answer
        return answer

    async def mistake(self, path: str, body: Any) -> str:
        """What the future of a call says that its user did wrong."""
        promise = await self.post(path, body)
        failed = await self.post(
            "retrieve_future", {"request_id": promise["request_id"], "allow_metadata_only": True}
        )
        assert failed["category"] == "user", failed
        return failed["error"]

    async def get(self, path: str) -> Any:
        status, answer = await self.send("GET", path)
        assert status == 200, answer
        return answer

    async def session(self) -> str:
        return (
            await self.post(
                "create_session", {"tags": [], "sdk_version": "0.38.0", "display_name": "mine"}
            )
        )["session_id"]

    async def model(self, session_id: str, number: int = 0, **changes: Any) -> dict[str, Any]:
        body = {
            "session_id": session_id,
            "model_seq_id": number,
            "base_model": BASE_MODEL,
        } | changes
        return await self.post(
            "create_model", {"lora_config": {"rank": 8}, "type": "create_model"} | body
        )
