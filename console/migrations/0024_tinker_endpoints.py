from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0023_restart_count")]
    operations = [
        migrations.AddField("tinkersession", "is_of_endpoints", models.BooleanField(default=False)),
    ]
