import hashlib

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def hash_keys(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Keep sign-ins under the hash of their cookies: who is signed in stays so, a copy of the rows lets nobody in."""
    for model in (apps.get_model('sessions', 'Session'), apps.get_model('usersessions', 'UserSession')):
        for key in model.objects.values_list('session_key', flat=True):
            hashed = hashlib.sha256(key.encode()).hexdigest()[:40]
            model.objects.filter(session_key=key).update(session_key=hashed)


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0011_episode_archive'),
        ('sessions', '0001_initial'),
        ('usersessions', '0001_initial'),
    ]

    operations = [migrations.RunPython(hash_keys, migrations.RunPython.noop)]
