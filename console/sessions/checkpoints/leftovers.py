"""What would stay for ever: parts of uploads that no commit came for, states of sessions that have
ended, and, where a setting says so, old checkpoints. Pinned ones stay.
"""

import logging
import os
import shutil
from contextlib import suppress
from datetime import timedelta

from django.conf import settings
from django.core.cache import cache
from django.db.models import Count, Q
from django.utils import timezone

from console.errors import Conflict, StorageUnavailable
from console.object_store import client as object_store
from console.sessions.checkpoints.checkpoints import checkpoint_resume_get
from console.sessions.checkpoints.removal import checkpoint_remove
from console.sessions.models import Checkpoint, Session, Upload
from console.sessions.states import ENDED, GOING, WITH_RUNTIME
from tinkerscript.wire.checkpoints import CheckpointKind, CheckpointState

log = logging.getLogger(__name__)

SWEEP_EVERY_S = 600
AT_ONCE = 1000  # sessions of one statement
# An upload is begun in the store before its row is written: one without a row may be that young.
ROW_FOLLOWS = timedelta(minutes=10)
# An ended session cannot go on: its last state is kept this long for who wants to look at it, or to
# pin it.
LAST_STATE_KEPT = timedelta(days=30)
# Folders of a runtime's volume that serve to go on: its state at a step, and a model on its way to
# the store.
LOCAL_STATES = ("state-*", "export", "models", "checkpoints", ".state-*", ".export.*")


def uploads_sweep() -> None:
    """Drop the parts of uploads that cannot be committed any more: no one could list, download or
    delete them.
    """
    if not cache.add("uploads-swept", True, timeout=SWEEP_EVERY_S):
        return
    now = timezone.now()
    # Their URLs have ended, or their session has no runtime that could commit them.
    of_somebody = Q(session__state__in=WITH_RUNTIME) | Q(external__isnull=False)
    open_uploads = Upload.objects.filter(
        of_somebody, created_at__gt=now - timedelta(seconds=settings.TRANSFER_URL_S)
    )
    wanted = {
        file["upload_id"]
        for files in open_uploads.values_list("files", flat=True)
        for file in files
    }
    try:
        for key, upload_id, begun_at in object_store.multipart_list("sessions/"):
            if upload_id not in wanted and now - begun_at > ROW_FOLLOWS:
                object_store.multipart_abort(key, upload_id)
                log.info("the upload of %s was never finished: its parts are removed", key)
    except StorageUnavailable as away:
        log.warning("uploads that were never finished are still to go: %s", away)


def ended_states_trim() -> None:
    """Keep of an ended session its last automatic state, and that for LAST_STATE_KEPT. Pinned and
    ordered ones stay.
    """
    automatic = Checkpoint.objects.filter(
        kind=CheckpointKind.STATE,
        state=CheckpointState.COMMITTED,
        ordered=False,
        pinned=False,
        session__state__in=ENDED,
    )
    expired = automatic.filter(session__state_since__lt=timezone.now() - LAST_STATE_KEPT)
    for checkpoint in expired.select_related("session"):
        with suppress(Conflict):  # another session began from it
            checkpoint_remove(
                checkpoint, reason=f"its session ended {LAST_STATE_KEPT.days} days ago"
            )
    several = automatic.values("session").annotate(number=Count("id")).filter(number__gt=1)
    for session_id in several.values_list("session", flat=True):
        for checkpoint in automatic.filter(session=session_id).order_by("-step", "-committed_at")[
            1:
        ]:
            with suppress(Conflict):
                checkpoint_remove(
                    checkpoint, reason="its session has ended, and a newer state is kept"
                )


def checkpoints_expire() -> None:
    """Remove committed checkpoints older than the setting allows, but not what a session serves or
    resumes from.
    """
    if not settings.CHECKPOINT_DAYS:
        return
    before = timezone.now() - timedelta(days=settings.CHECKPOINT_DAYS)
    old = Checkpoint.objects.filter(
        state=CheckpointState.COMMITTED, pinned=False, committed_at__lt=before
    )
    going = Session.objects.filter(state__in=GOING)
    for used in ("served_checkpoint_id", "start_state_id"):
        old = old.exclude(id__in=going.exclude(**{used: ""}).values(used))
    for checkpoint in old.select_related("session"):
        if checkpoint.session.state in ENDED or checkpoint != checkpoint_resume_get(
            session_id=checkpoint.session_id
        ):
            with suppress(Conflict):  # one that is used since
                checkpoint_remove(checkpoint, reason=f"older than {settings.CHECKPOINT_DAYS} days")


def local_states_remove() -> None:
    """Remove what ended sessions left on this disk to go on from. Journals and logs stay.

    Each session's folder is gone through once, after its end: nothing is written there any more.
    """
    runtimes = settings.DATA / "runtimes"
    try:
        names = sorted(set(os.listdir(runtimes)) - gone_through)
    except FileNotFoundError:  # none has run here
        return
    for first in range(0, len(names), AT_ONCE):
        ended = Session.objects.filter(
            state__in=ENDED, launch_handle__isnull=True, id__in=names[first : first + AT_ONCE]
        )
        for session_id in ended.values_list("id", flat=True):
            for name in LOCAL_STATES:
                for left in (runtimes / session_id).glob(name):
                    shutil.rmtree(left, ignore_errors=True)
            gone_through.add(session_id)


gone_through: set[str] = set()  # by this process
