"""Files of the console's pages and of Django's own, as WhiteNoise finds them."""

from contextlib import closing
from typing import Any

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


class PageFiles(WhiteNoiseMiddleware):
    """Reads a file within its request's thread: as a stream Django would read it whole in another
    thread, and print a warning.
    """

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        with closing(WhiteNoiseMiddleware.serve(static_file, request)) as found:
            answer = HttpResponse(b"".join(found), status=found.status_code)
            answer.headers = found.headers
            return answer
