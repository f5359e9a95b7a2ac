"""Which device which session has."""

from django.db import models

from console.sessions.models import Session


class Device(models.Model):
    """A device of this machine, and the session that has it: one at most."""

    # as CUDA_VISIBLE_DEVICES and Docker name it
    id = models.CharField(primary_key=True, max_length=80)
    position = models.PositiveSmallIntegerField()
    session = models.ForeignKey(
        Session, on_delete=models.SET_NULL, related_name="devices_held", null=True
    )

    class Meta:
        db_table = "console_device"
