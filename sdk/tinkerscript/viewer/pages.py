"""The console's pages as they were built: in the wheel beside this file, in a checkout in
frontend/dist.
"""

import mimetypes
from datetime import datetime
from pathlib import Path

from tinkerscript.errors import InvalidRequest

HERE = Path(__file__).resolve().parent
PLACES = (HERE / "pages", HERE.parents[2] / "frontend" / "dist")
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
}
# How a page knows that no server stands behind it: frontend/src/api/offline.ts.
MARK = '<meta name="tinkerscript-exported-at" content="{}">'

File = tuple[str, bytes]  # media type, content


def pages_read(exported_at: datetime) -> dict[str, File]:
    """Every file by its path in the address; ``/`` is the page. Raises InvalidRequest where there
    are none.
    """
    folder = next((place for place in PLACES if (place / "index.html").is_file()), None)
    if folder is None:
        raise InvalidRequest(
            "This client came without the console's pages, which the viewer shows.",
            hint="In a checkout: make frontend. Else install the client from a server that shows "
            "the console:"
            " pip install ADDRESS/client/tinkerscript.whl",
        )
    files = {
        f"/{path.relative_to(folder).as_posix()}": (_type_of(path), path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".br", ".gz")
    }
    kind, page = files.pop("/index.html")
    mark = MARK.format(exported_at.isoformat()).encode()
    return files | {"/": (kind, page.replace(b"</head>", mark + b"</head>", 1))}


def _type_of(path: Path) -> str:
    kind = (
        TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    )
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
