import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0040_keys_of_links'),
    ]

    operations = [
        migrations.CreateModel(
            name='SessionTurn',
            fields=[
                ('session', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='console.session')),
                ('holder', models.CharField(max_length=32)),
                ('expires_at', models.DateTimeField()),
            ],
        ),
    ]
