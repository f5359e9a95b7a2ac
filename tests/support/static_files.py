"""The server's static files, read once for all tests."""

from typing import Any

from console.server.middleware import PageFiles


class StaticFilesOnce(PageFiles):
    """In place of its base: each client of a test makes the middleware anew, and to read all files
    takes it 40 ms.
    """

    _read: dict[str, Any] = {}

    def __init__(self, get_response: Any) -> None:
        if self._read:
            self.__dict__.update(self._read, get_response=get_response)
        else:
            super().__init__(get_response)
            self._read.update(self.__dict__)
