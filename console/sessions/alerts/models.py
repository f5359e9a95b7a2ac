"""Rules of alerts that people make."""

from django.db import models

from console.users.models import Project, new_id


def new_rule_id() -> str:
    return new_id("mru")


class MetricRule(models.Model):
    """A bound on one measure of the project's runs."""

    id = models.CharField(primary_key=True, max_length=40, default=new_rule_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="metric_rules")
    name = models.CharField(max_length=60)
    metric = models.CharField(max_length=220)  # a field of StepMetrics, or metrics/<name>
    above = models.BooleanField()  # raised above ``value``, or else below it
    value = models.FloatField()
    steps = models.PositiveSmallIntegerField()  # in a row
    # what a run's name or id has in it; empty: every run
    runs = models.CharField(max_length=120, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "console_metricrule"
