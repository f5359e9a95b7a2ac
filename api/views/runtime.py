"""What a runtime says, under its lease. ``request.auth`` is its session."""

from django.http import HttpRequest

from console.sessions import leases, uploads
from tinkerscript.wire.runtime import (
    Assignment,
    FailureReport,
    Orders,
    Report,
    RuntimeState,
    UploadCommit,
    UploadCommitted,
    UploadOpen,
    UploadPlan,
)


def runtime_register(request: HttpRequest) -> Assignment:
    """A runtime's first word: what am I to do?"""
    return leases.runtime_register(session=request.auth)


def runtime_heartbeat(request: HttpRequest, body: RuntimeState) -> Orders:
    """Renew the lease, say how it goes, be told what is wanted."""
    return leases.runtime_heartbeat(session=request.auth, body=body)


def runtime_report(request: HttpRequest, body: Report) -> None:
    """Add entries to the session's record."""
    leases.runtime_report(session=request.auth, body=body)


def runtime_fail(request: HttpRequest, body: FailureReport) -> None:
    """Give up, with a cause."""
    leases.runtime_fail(session=request.auth, body=body)


def upload_open(request: HttpRequest, body: UploadOpen) -> UploadPlan:
    """Get presigned URLs to write to."""
    return uploads.upload_open(session=request.auth, body=body)


def upload_commit(request: HttpRequest, upload_id: str, body: UploadCommit) -> UploadCommitted:
    """Publish what was written."""
    return uploads.upload_commit(session=request.auth, upload_id=upload_id, body=body)
