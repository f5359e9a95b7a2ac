import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0010_drain'),
    ]

    operations = [
        migrations.AddField(
            model_name='upload',
            name='archive',
            field=models.JSONField(null=True),
        ),
        migrations.CreateModel(
            name='ArchivePart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('episodes', models.PositiveIntegerField()),
                ('path', models.CharField(max_length=40)),
                ('size_bytes', models.PositiveBigIntegerField()),
                ('sha256', models.CharField(max_length=64)),
                ('committed_at', models.DateTimeField(auto_now=True)),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='archive_parts', to='console.session')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('session', 'number'), name='archive_part_once')],
            },
        ),
    ]
