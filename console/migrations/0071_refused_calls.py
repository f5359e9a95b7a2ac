from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0070_spans_in_the_order_they_are_added_up"),
    ]

    operations = [
        migrations.AddField(
            model_name="episoderecord",
            name="refused",
            field=models.JSONField(null=True),
        ),
    ]
