"""What lists of episodes are narrowed by, beside the rows of the episodes."""

from django.db import models

from console.sessions.models import Session


class EpisodeTextBlock(models.Model):
    """Which pieces of text the episodes of one block of a session have: ``console.sessions.episodes.text_blocks``."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveBigIntegerField()
    bitmap = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "number"], name="episode_text_block_once")]
