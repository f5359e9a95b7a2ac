from typing import Any

from django.db import migrations, models


def chunks_make(apps: Any, schema_editor: Any) -> None:
    """What was kept of a session's last runtime is its first chunk."""
    kept = apps.get_model("console", "RuntimeLog").objects.all()
    chunk = apps.get_model("console", "LogChunk")
    for row in kept.iterator(chunk_size=20):
        chunk.objects.create(session_id=row.session_id, launch="", lines=row.lines)


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0057_logprobs_of_the_trainer'),
    ]

    operations = [
        migrations.CreateModel(
            name='LogChunk',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('session_id', models.CharField(max_length=40)),
                ('launch', models.CharField(max_length=150)),
                ('kept_at', models.DateTimeField(auto_now_add=True)),
                ('lines', models.BinaryField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('session_id', 'launch'), name='log_chunk_once')],
            },
        ),
        migrations.RunPython(chunks_make, migrations.RunPython.noop),
        migrations.DeleteModel(
            name='RuntimeLog',
        ),
    ]
