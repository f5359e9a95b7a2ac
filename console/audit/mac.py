"""What ties the audit log to this server: codes made with a key that is not in the database.

    mac(entry) = HMAC-SHA256(key, "entry|project|number|sha256")
    mac(head)  = HMAC-SHA256(key, "head|project|number|sha256")

Who may write every row can compute the chain's hashes, and cannot compute these.
"""

import hashlib
import hmac

from django.conf import settings


def entry_mac(*, project_id: str, number: int, sha256: str) -> str:
    """The code of an entry."""
    return _mac("entry", project_id, number, sha256)


def head_mac(*, project_id: str, number: int, sha256: str) -> str:
    """The code of where a log ends."""
    return _mac("head", project_id, number, sha256)


def _mac(kind: str, project_id: str, number: int, sha256: str) -> str:
    text = f"{kind}|{project_id}|{number}|{sha256}"
    return hmac.new(settings.AUDIT_KEY.encode(), text.encode(), hashlib.sha256).hexdigest()
