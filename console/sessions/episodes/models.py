"""What stands beside the rows of the episodes: what lists are narrowed by, and what people say."""

from django.conf import settings
from django.db import models

from console.sessions.models import Session


class EpisodeTextBlock(models.Model):
    """Which pieces of text the episodes of one block of a session have:
    ``console.sessions.episodes.text_blocks``.
    """

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveBigIntegerField()
    bitmap = models.BinaryField()

    class Meta:
        db_table = "console_episodetextblock"
        constraints = [
            models.UniqueConstraint(fields=["session", "number"], name="episode_text_block_once")
        ]


class EpisodeAnnotation(models.Model):
    """What one person says of an episode. The row of the episode may be reported again: so it
    stands beside it."""

    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="annotations", db_index=False
    )
    episode_id = models.CharField(max_length=64)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", null=True
    )
    thumb = models.CharField(max_length=4, blank=True)  # up, down
    comment = models.TextField(blank=True)
    at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "console_episodeannotation"
        constraints = [
            models.UniqueConstraint(
                fields=["session", "episode_id", "person"], name="annotation_once"
            )
        ]
