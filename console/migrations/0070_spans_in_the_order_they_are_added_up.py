from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0069_bytes_of_journals_that_are_there"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="runtimespan",
            name="span_unsummed",
        ),
        migrations.AddIndex(
            model_name="runtimespan",
            index=models.Index(condition=models.Q(("summed", False)), fields=["project", "id"], name="span_unsummed"),
        ),
    ]
