"""How an episode's agents stand in its row, and where its files lie in the bucket."""

from typing import Any

from console.sessions.models import Session


def agent_mark(agent: str) -> str:
    """What ``EpisodeRecord.agents`` has of an agent."""
    return f"|{agent.replace('|', '/')}|"


def pack_key(session: Session, sha256: str) -> str:
    """Where a pack lies in the bucket."""
    return f"sessions/{session.id}/trajectories/{sha256}"


def part_key(session: Session, sha256: str) -> str:
    """Where a part lies in the bucket: named for what is in it, so that nothing is written over
    what is read.
    """
    return f"sessions/{session.id}/episodes/{sha256}.parquet"


def journal_key(session: Session, sha256: str) -> str:
    """Where a file of the journal's copy is."""
    return f"sessions/{session.id}/journal/{sha256}.sqlite3"


def journal_files(journal: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The files of ``Session.journal``: a whole copy, then changes."""
    return [] if journal is None else list(journal["files"])
