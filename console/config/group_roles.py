"""Which groups of an identity provider give which role, and whose domains' addresses it assigns, by
the settings.
"""

from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured

from console.config.environment import read_text
from console.config.sign_up import DOMAIN
from tinkerscript.wire.account import Role

FORM = "group=prj_1f2e3d4c5b6a7988:member"


@dataclass(frozen=True)
class GroupRole:
    """Who is in ``group`` has at least ``role`` in the project."""

    group: str
    project_id: str
    role: Role


def read_group_roles(name: str) -> tuple[GroupRole, ...]:
    """``group=project:role,group=project:role``. Raises ImproperlyConfigured."""
    return tuple(
        _role(name, entry.strip()) for entry in read_text(name, "").split(",") if entry.strip()
    )


def read_domains(name: str, text: str) -> frozenset[str]:
    """The domains of ``text``, separated by spaces, in lower case. Raises ImproperlyConfigured."""
    domains = frozenset(text.lower().split())
    if wrong := sorted(domain for domain in domains if not DOMAIN.fullmatch(domain)):
        raise ImproperlyConfigured(f"{name}: {wrong[0]!r} is no domain such as example.org.")
    return domains


def _role(name: str, entry: str) -> GroupRole:
    group, _, rest = entry.rpartition("=")
    project_id, _, role = rest.partition(":")
    if not (group and project_id.startswith("prj_") and role in set(Role)):
        raise ImproperlyConfigured(
            f"{name}: {entry!r} does not read {FORM}; roles are {', '.join(Role)}."
        )
    return GroupRole(group, project_id, Role(role))
