"""Ways to look at a run that people keep."""

from django.db import models

from console.users.models import Project, new_id


def new_view_id() -> str:
    return new_id("viw")


class SavedView(models.Model):
    """How the charts of a run are looked at; ``address`` as in
    ``tinkerscript.wire.reading.saved_views``.
    """

    id = models.CharField(primary_key=True, max_length=40, default=new_view_id, editable=False)
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, related_name="saved_views", db_index=False
    )
    name = models.CharField(max_length=60)
    address = models.CharField(max_length=400, blank=True)
    pinned = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "console_savedview"
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="saved_view_name_once")
        ]
