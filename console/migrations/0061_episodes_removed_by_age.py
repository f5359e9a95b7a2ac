from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0060_leader_of_a_place'),
    ]

    operations = [
        migrations.AddField(
            model_name='session',
            name='episodes_removed_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(condition=models.Q(('episodes_removed_at', None)), fields=['state', 'state_since'], name='session_expiring'),
        ),
    ]
