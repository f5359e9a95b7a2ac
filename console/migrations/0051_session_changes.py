from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0050_tinker_model_made"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["project", "updated_at"], name="session_changes"),
        ),
    ]
