from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0048_usage_sums"),
    ]

    operations = [
        migrations.AddField(
            model_name="tinkermodel",
            name="is_made",
            field=models.BooleanField(default=False),
        ),
    ]
