from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0059_index_of_facets'),
    ]

    operations = [
        # Its one row is worth ten seconds: nothing is carried over.
        migrations.DeleteModel(
            name='LeaderLease',
        ),
        migrations.CreateModel(
            name='LeaderLease',
            fields=[
                ('place', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('holder', models.CharField(max_length=80)),
                ('expires_at', models.DateTimeField()),
                ('tick_s', models.FloatField(default=0.0)),
                ('wanted_by', models.CharField(blank=True, default='', max_length=80)),
            ],
        ),
    ]
