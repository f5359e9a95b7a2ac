from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("console", "0024_tinker_endpoints")]
    operations = [
        migrations.AddField("tinkersession", "clients_joined", models.PositiveIntegerField(default=0)),
    ]
