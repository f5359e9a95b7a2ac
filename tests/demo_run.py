"""Record the demo run anew (``api/demo_run``), which the console shows to who has no run.

``python tests/demo_run.py SESSION``: a session that ``make quickstart`` left, on the server of
TINKERSCRIPT_BASE_URL and TINKERSCRIPT_API_KEY. The lines of its log stay out: they name the
machine's folders. The documents of all episodes become one file, and what is as by default is
left out of their rows.
"""

import hashlib
import os
import shutil
import sys
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "sdk")]

from tinkerscript.connection.transport import Transport  # noqa: E402
from tinkerscript.downloads.record import (  # noqa: E402
    DOCUMENT_INDEX,
    DOCUMENTS,
    EPISODES,
    RUN,
    RunFile,
)
from tinkerscript.sessions.session import Session  # noqa: E402
from tinkerscript.wire.episodes import EpisodeView  # noqa: E402
from tinkerscript.wire.reading.documents import EpisodeDocument  # noqa: E402

FOLDER = ROOT / "api" / "demo_run"


def main(session_id: str) -> None:
    base_url, key = os.environ["TINKERSCRIPT_BASE_URL"], os.environ["TINKERSCRIPT_API_KEY"]
    shutil.rmtree(FOLDER, ignore_errors=True)
    with closing(Transport(base_url, key)) as transport:
        Session(transport, session_id).download_record(FOLDER)
    path = FOLDER / RUN
    run = RunFile.model_validate_json(path.read_bytes())
    without_log = run.logs.model_copy(update={"lines": [], "cursor": ""})
    path.write_text(run.model_copy(update={"logs": without_log}).model_dump_json(indent=1))
    documents_join()
    rows = map(EpisodeView.model_validate_json, (FOLDER / EPISODES).read_text().splitlines())
    told = [f"{row.model_dump_json(exclude_defaults=True)}\n" for row in rows]
    (FOLDER / EPISODES).write_text("".join(told))
    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    print(f"{FOLDER.relative_to(ROOT)}: {size} bytes")


def documents_join() -> None:
    """One file in the place of many, each of which has some episodes."""
    index, folder = FOLDER / DOCUMENT_INDEX, FOLDER / DOCUMENTS
    places = list(map(EpisodeDocument.model_validate_json, index.read_text().splitlines()))
    packed = []
    for place in places:
        end = place.offset_bytes + place.size_bytes
        packed.append((folder / place.file).read_bytes()[place.offset_bytes : end])
    whole = b"".join(packed)
    shutil.rmtree(folder)
    folder.mkdir()
    name = hashlib.sha256(whole).hexdigest()
    (folder / name).write_bytes(whole)
    start, lines = 0, []
    for place in places:
        moved = place.model_copy(update={"file": name, "offset_bytes": start})
        lines.append(f"{moved.model_dump_json()}\n")
        start += place.size_bytes
    index.write_text("".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
