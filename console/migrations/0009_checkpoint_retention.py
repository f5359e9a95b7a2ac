from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0008_quotas_and_budgets'),
    ]

    operations = [
        migrations.AddField(
            model_name='checkpoint',
            name='pinned',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='checkpoint',
            name='size_bytes',
            field=models.PositiveBigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='project',
            name='storage_quota_bytes',
            field=models.PositiveBigIntegerField(null=True),
        ),
    ]
