from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ("console", "0012_sign_ins_hashed"),
    ]

    operations = [
        migrations.RenameModel(old_name="KeptAnswer", new_name="IdempotencyRecord"),
    ]
