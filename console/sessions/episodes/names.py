"""How an episode's agents stand in its row, and where its document lies in the bucket."""

from console.sessions.models import Session


def agent_mark(agent: str) -> str:
    """What ``EpisodeRecord.agents`` has of an agent."""
    return f"|{agent.replace('|', '/')}|"


def pack_key(session: Session, sha256: str) -> str:
    """Where a pack lies in the bucket."""
    return f"sessions/{session.id}/trajectories/{sha256}"
