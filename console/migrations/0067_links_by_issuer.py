import json
from hashlib import sha256

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def links_key(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Of OpenID Connect by the issuer that the ID token named. SAML's did not keep theirs: the address leads back."""
    links = apps.get_model("socialaccount", "SocialAccount").objects
    links.filter(provider="saml").delete()
    for link in links.filter(provider="oidc").iterator():
        issuer = ((link.extra_data or {}).get("id_token") or {}).get("iss")
        if issuer:
            link.uid = sha256(json.dumps([issuer, link.uid]).encode()).hexdigest()
            link.save(update_fields=["uid"])
        else:
            link.delete()


class Migration(migrations.Migration):

    dependencies = [
        ('console', '0066_when_recent_spans_were_added_up'),
        ('socialaccount', '0006_alter_socialaccount_extra_data'),
    ]

    operations = [migrations.RunPython(links_key, migrations.RunPython.noop)]
