from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0002_idempotency")]

    operations = [
        migrations.AddField(model_name="leaderlease", name="tick_s", field=models.FloatField(default=0.0)),
    ]
