from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0013_idempotency_record'),
    ]

    operations = [
        migrations.CreateModel(
            name='ServerInstance',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('secret', models.CharField(max_length=32)),
            ],
        ),
    ]
