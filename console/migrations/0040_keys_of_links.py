import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0039_share_links'),
    ]

    operations = [
        migrations.AddField(
            model_name='sharelink',
            name='key',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='console.apikey'),
        ),
    ]
