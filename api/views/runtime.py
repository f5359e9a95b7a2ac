"""Requests of a runtime, under its lease, that are no service: routes.py names those."""

from console.sessions.models import Session
from console.sessions.runtime import stored_files, uploads
from tinkerscript.wire.runtime import DocumentPlaces, DocumentsFind, UploadOpen, UploadTargets


def upload_open(session: Session, body: UploadOpen) -> UploadTargets:
    """Get presigned URLs to write to."""
    return uploads.upload_open(session=session, body=body.root)


def runtime_documents(session: Session, body: DocumentsFind) -> DocumentPlaces:
    """Read documents of episodes that the journal was pruned of."""
    return DocumentPlaces(
        items=stored_files.documents_find(session=session, episode_ids=body.episode_ids)
    )
