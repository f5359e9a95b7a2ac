"""Requests of a runtime, under its lease. ``request.auth`` is its session."""

from api.rest.requests import LeaseRequest
from console.sessions.runtime import episode_reports, leases, stored_files, uploads
from console.tinker.checkpoints import named_checkpoint_open as open_named
from console.tinker.checkpoints import named_state_find as find_state
from console.tinker.runtimes import clients_over
from console.tinker.work import work_record
from tinkerscript.wire.reading.trajectories import EpisodeRows
from tinkerscript.wire.runtime import (
    Assignment,
    CheckpointFailure,
    DocumentPlaces,
    DocumentsFind,
    FailureReport,
    Orders,
    Report,
    RuntimeState,
    UploadCommit,
    UploadCommitted,
    UploadOpen,
    UploadTargets,
)
from tinkerscript.wire.tinker.messages import (
    ClientsOver,
    ClientsServed,
    NamedCheckpoint,
    NamedCheckpointOpen,
    NamedState,
    NamedStateFind,
    WorkReport,
)


def runtime_register(request: LeaseRequest) -> Assignment:
    """A runtime's first word: what am I to do?"""
    return leases.runtime_register(session=request.auth)


def runtime_heartbeat(request: LeaseRequest, body: RuntimeState) -> Orders:
    """Renew the lease, report status and progress, get the current orders."""
    return leases.runtime_heartbeat(session=request.auth, body=body)


def runtime_report(request: LeaseRequest, body: Report) -> None:
    """Add entries to the session's record."""
    leases.runtime_report(session=request.auth, body=body)


def runtime_episodes(request: LeaseRequest, body: EpisodeRows) -> None:
    """Say what became of episodes."""
    episode_reports.rows_save(session=request.auth, body=body)


def runtime_fail(request: LeaseRequest, body: FailureReport) -> None:
    """Give up, with a cause."""
    leases.runtime_fail(session=request.auth, body=body)


def checkpoint_fail(request: LeaseRequest, body: CheckpointFailure) -> None:
    """Give an ordered checkpoint up, with a cause."""
    uploads.checkpoint_fail(session=request.auth, body=body)


def upload_open(request: LeaseRequest, body: UploadOpen) -> UploadTargets:
    """Get presigned URLs to write to."""
    return uploads.upload_open(session=request.auth, body=body.root)


def upload_commit(request: LeaseRequest, upload_id: str, body: UploadCommit) -> UploadCommitted:
    """Publish what was written."""
    return uploads.upload_commit(session=request.auth, upload_id=upload_id, body=body)


def runtime_documents(request: LeaseRequest, body: DocumentsFind) -> DocumentPlaces:
    """Read documents of episodes that the journal was pruned of."""
    return DocumentPlaces(
        items=stored_files.documents_find(session=request.auth, episode_ids=body.episode_ids)
    )


def named_checkpoint_open(request: LeaseRequest, body: NamedCheckpointOpen) -> NamedCheckpoint:
    """Store what a Tinker client gave a name."""
    return open_named(session=request.auth, body=body)


def named_state_find(request: LeaseRequest, body: NamedStateFind) -> NamedState:
    """Read a saved state of a Tinker client by its path."""
    return find_state(session=request.auth, body=body)


def tinker_work(request: LeaseRequest, body: WorkReport) -> None:
    """Say what was done for Tinker clients."""
    work_record(session=request.auth, body=body)


def tinker_clients(request: LeaseRequest, body: ClientsServed) -> ClientsOver:
    """Ask which clients of a shared runtime are over."""
    return ClientsOver(over=clients_over(session=request.auth, clients=body.clients))
