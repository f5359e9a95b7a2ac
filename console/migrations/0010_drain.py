from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0009_checkpoint_retention'),
    ]

    operations = [
        migrations.CreateModel(
            name='Drain',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('since', models.DateTimeField(auto_now_add=True)),
            ],
        ),
    ]
