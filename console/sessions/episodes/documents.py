"""The documents of episodes: one out of its pack in the object store, its calls as
``wire.reading.calls`` shows them, or all of a session to take home.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from console.errors import Conflict, NotFound, StorageUnavailable
from console.object_store import client as object_store
from console.object_store.links import read_link
from console.sessions.episodes.names import pack_key, part_key
from console.sessions.models import EpisodeRecord
from console.sessions.selectors import session_get
from console.users.models import Project
from tinkerscript.wire.checkpoints import DownloadFile
from tinkerscript.wire.episodes import EpisodeExport, EpisodeFile
from tinkerscript.wire.reading.calls import is_sampled_raw
from tinkerscript.wire.reading.documents import EpisodeDocument, EpisodeDocuments, document_unpack
from tinkerscript.wire.reading.token_pages import Raw, raw_logprobs


def documents_export(
    *, project: Project, session_id: str, after: int, limit: int
) -> EpisodeDocuments:
    """One page of the documents that are in the store, with links to their packs. Raises
    NotFound."""
    session = session_get(project=project, session_id=session_id)
    rows = EpisodeRecord.objects.filter(session=session, pack__isnull=False, seq__gt=after)
    page = list(rows.select_related("pack").order_by("seq")[: limit + 1])
    more = page[limit - 1].seq if len(page) > limit else None
    packs, expires_s = {}, settings.PRESIGNED_URL_S
    items = []
    for row in page[:limit]:
        assert row.pack is not None, "the query looked"
        packs[row.pack.sha256] = row.pack
        items.append(
            EpisodeDocument(
                episode_id=row.episode_id,
                file=row.pack.sha256,
                offset_bytes=row.pack_offset,
                size_bytes=row.pack_bytes,
                advantages=row.advantages,
            )
        )
    files = [
        DownloadFile(
            path=sha256,
            size_bytes=pack.size_bytes,
            sha256=sha256,
            url=read_link(pack_key(session, sha256), expires_s=expires_s),
        )
        for sha256, pack in packs.items()
    ]
    return EpisodeDocuments(
        items=items,
        files=files,
        next_cursor=str(more) if more is not None else None,
        expires_at=timezone.now() + timedelta(seconds=expires_s),
    )


def archive_export(*, project: Project, session_id: str) -> EpisodeExport:
    """Links to every part of the archive that a runtime uploaded, in every state of the session.
    Raises NotFound, Conflict while there is none.
    """
    session = session_get(project=project, session_id=session_id)
    parts = list(session.archive_parts.order_by("number"))
    if not parts:
        raise Conflict(
            "No episode of this session has been archived yet.",
            hint="That happens with each checkpoint, and when the session is suspended, is stopped "
            "or fails.",
        )
    expires_s = settings.PRESIGNED_URL_S
    return EpisodeExport(
        session_id=session.id,
        episodes=sum(part.episodes for part in parts),
        files=[
            EpisodeFile(
                part=part.number,
                episodes=part.episodes,
                path=part.path,
                size_bytes=part.size_bytes,
                sha256=part.sha256,
                url=read_link(
                    part_key(session, part.sha256),
                    expires_s=expires_s,
                    save_as=f"{session.id}-{part.path}",
                ),
            )
            for part in parts
        ],
        expires_at=timezone.now() + timedelta(seconds=expires_s),
    )


def document_read(record: EpisodeRecord) -> dict[str, Any]:
    """Calls and tokens of an episode whose ``pack`` is set. Raises NotFound, StorageUnavailable."""
    packed = _packed(record)
    if packed is None:  # a step may have trained it meanwhile, and its document be in another pack
        now = EpisodeRecord.objects.filter(id=record.id).select_related("pack", "session").first()
        packed = _packed(now) if now is not None and now.pack_id != record.pack_id else None
    if packed is None:
        raise NotFound("The tokens of this episode are not in the object store any more.")
    try:
        return document_unpack(packed)
    except ValueError as error:
        raise StorageUnavailable(
            f"What the object store has of this episode cannot be read: {error}",
            hint="Look at the store; the archive (GET .../episodes/export) has the same episode "
            "once more.",
        ) from error


def _packed(record: EpisodeRecord) -> bytes | None:
    if record.pack is None:
        return None
    key = pack_key(record.session, record.pack.sha256)
    return object_store.get_range(key, offset=record.pack_offset, size_bytes=record.pack_bytes)


def calls_page(document: Mapping[str, Any], *, start: int, limit: int) -> list[dict[str, Any]]:
    """``limit`` calls from number ``start`` on as ``wire.reading.calls`` shows them, prompts
    included.
    """
    sequences: dict[int, _Sequence] = {}
    raw = raw_logprobs(document)
    return [
        _call(document, call, sequences, raw) for call in document["calls"][start : start + limit]
    ]


def raw_of(
    raw: Raw, call: Mapping[str, Any], answer: int, sampled: Sequence[float]
) -> Sequence[float] | None:
    """Those of an answer, ``sampled`` where they are the same; None where they were not
    recorded.
    """
    return raw.get((call["id"], answer), sampled if is_sampled_raw(call["options"]) else None)


class _Sequence:
    """A timeline's lists, each as long as the timeline: of context, the last two hold nothing that
    is read.
    """

    def __init__(self, runs: Sequence[Mapping[str, Any]]) -> None:
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.versions: list[int] = []
        for run in runs:
            context = run["call"] is None
            self.token_ids += run["token_ids"]
            self.logprobs += [0.0] * run["tokens"] if context else run["logprobs"]
            self.versions += [-1] * run["tokens"] if context else run["policy_versions"]


def _call(
    document: Mapping[str, Any], call: Mapping[str, Any], sequences: dict[int, _Sequence], raw: Raw
) -> dict[str, Any]:
    prompt, completions = call["prompt_token_ids"], []
    for answer in call["answers"]:
        shown = {name: answer[name] for name in ("index", "message", "finish_reason")}
        at = answer["timeline"]
        if at is None:
            completions.append(
                shown
                | {name: answer[name] for name in ("token_ids", "logprobs", "policy_versions")}
            )
            continue
        if at not in sequences:
            sequences[at] = _Sequence(document["timelines"][at]["runs"])
        whole, start, end = sequences[at], answer["start"], answer["start"] + answer["tokens"]
        prompt = whole.token_ids[:start]
        completions.append(
            shown
            | {
                "token_ids": whole.token_ids[start:end],
                "logprobs": whole.logprobs[start:end],
                "policy_versions": whole.versions[start:end],
            }
        )
    for each in completions:
        each["raw_logprobs"] = raw_of(raw, call, each["index"], each["logprobs"])
    shown = {
        name: value for name, value in call.items() if name not in ("answers", "prompt_token_ids")
    }
    return shown | {"prompt_token_ids": prompt, "completions": completions}
