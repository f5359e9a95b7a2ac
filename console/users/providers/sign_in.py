"""Sign-in with an identity provider of the settings, through django-allauth: whose account it leads
to, who gets one, how long it lasts, and the roles that groups give. oidc.py reads who the person
is.

Only an address that the provider has confirmed counts: it is what a new account is made with, and
what leads to the account that is there. Without that, anyone who may choose their address at the
provider would choose another person's. A link from then on is to an id of the person at that very
provider (person_key): another provider may know somebody else by the same id. What someone else
made with an address before its owner came ends as at a first confirmation (console.users.sign_up).

In a project that the settings name for some group, the provider decides alone: a person has there
the highest role that their groups give, and none without such a group. The last owner of a project
stays one.
"""

import json
import logging
from collections.abc import Collection
from datetime import timedelta
from hashlib import sha256
from typing import Any

from allauth.account.models import EmailAddress
from allauth.account.signals import user_logged_in
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.dispatch import receiver
from django.forms import Form
from django.http import HttpRequest

from console.audit.services import audit_record
from console.config.oidc import GroupRole, Oidc
from console.errors import Conflict
from console.users.members import member_remove, member_role_set
from console.users.models import Membership, Project, User
from console.users.services import project_create_default
from console.users.sign_up import address_check, address_prove, sign_up_refusal
from tinkerscript.wire.account import Role

log = logging.getLogger(__name__)
OIDC_ID = "oidc"
# The provider says who still belongs here when it is asked: a sign-in by it lasts a working day.
SIGN_IN = timedelta(hours=12)
BEGUN_S = 600  # as long as allauth takes the provider's response
UNCONFIRMED = "unconfirmed_address"
RANKS = [Role.VIEWER, Role.MEMBER, Role.OWNER]


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """Which account a sign-in at the provider leads to, and whether one is made."""

    def authenticate_by_email(self, sociallogin: SocialLogin) -> tuple[User, str] | None:
        for address in sociallogin.email_addresses:
            if address.verified and (user := _owner(address.email)):
                return user, address.email
        return None

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        if sociallogin.account.pk is not None:
            return  # linked before: the provider's id of the person is enough
        confirmed = [address.email for address in sociallogin.email_addresses if address.verified]
        if not confirmed:
            raise ValidationError(
                "The identity provider has not confirmed this address.", code=UNCONFIRMED
            )
        address_prove(
            email=confirmed[0], user=sociallogin.user if sociallogin.is_existing else None
        )

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        """A group that gives a role is an invitation."""
        inviting = {rule.group for rule in _settings(sociallogin).roles}
        if settings.SIGN_UP.policy == "invited" and inviting & (
            _groups(sociallogin) or frozenset()
        ):
            return True
        return sign_up_refusal(sociallogin.email_addresses[0].email) is None

    def save_user(
        self, request: HttpRequest, sociallogin: SocialLogin, form: Form | None = None
    ) -> User:
        with transaction.atomic():
            user: User = super().save_user(request, sociallogin, form)
            if form is None:  # else by the form's adapter
                project_create_default(user=user)
        return user


@receiver(user_logged_in)
def signed_in(
    request: HttpRequest, user: User, sociallogin: SocialLogin | None = None, **_: Any
) -> None:
    """Give the browser session its length: a password's is Django's own, also after a sign-in that
    was only begun.
    """
    # A time, not a number of seconds: those would begin anew whenever the session is saved.
    request.session.set_expiry(None if sociallogin is None else SIGN_IN)
    if sociallogin is not None:
        _roles_apply(user, sociallogin)


def begun_sign_in_shorten(request: HttpRequest) -> None:
    """Anyone may begin a sign-in, and each time a row is kept: not for long."""
    if not request.user.is_authenticated:
        request.session.set_expiry(BEGUN_S)


def person_key(issuer: str, person_id: str) -> str:
    """What a link is found by: of one provider's name and its id of the person. 64 hexadecimal
    digits.
    """
    return sha256(json.dumps([issuer, person_id]).encode()).hexdigest()


def provider_parts(data: dict[str, Any]) -> list[dict[str, Any]]:
    """What the provider sent, by userinfo and by ID token."""
    return [part for name in ("userinfo", "id_token") if (part := data.get(name))]


def valid_email(email: Any) -> str | None:
    """The address in lower case, if it is one that this server takes."""
    try:
        address_check(email)
    except ValidationError:
        return None
    return str(email).lower()


def email_is_confirmed(claim: object, email: str, provider: Oidc) -> bool:
    """By the claim, which some providers send as text; where there is none, by a domain that the
    operator trusts.
    """
    if claim is None:
        return email.rpartition("@")[2] in provider.trusted_domains
    return claim is True or claim == "true"


def _settings(sociallogin: SocialLogin) -> Oidc:
    assert sociallogin.account.provider == OIDC_ID
    provider: Oidc | None = settings.OIDC
    assert provider is not None, "only a server with a provider has these pages"
    return provider


def _owner(email: str) -> User | None:
    """Whose address this is: who has confirmed it before who has merely given it."""
    address = EmailAddress.objects.filter(email=email, verified=True).select_related("user").first()
    if address:
        return address.user
    # One whom the operator made may have capital letters. PostgreSQL takes ı for i where it ignores
    # case.
    return next(
        (user for user in User.objects.filter(email__iexact=email) if user.email.lower() == email),
        None,
    )


def _roles_apply(user: User, sociallogin: SocialLogin) -> None:
    provider, groups = _settings(sociallogin), _groups(sociallogin)
    if not provider.roles:
        return
    if groups is None:
        log.warning(
            "The identity provider sent no groups of %s in the claim %s: roles stay as they are. "
            "In TINKERSCRIPT_OIDC_OPTIONS groups_claim names the claim that has groups, "
            "scopes what is asked for.",
            user.email,
            provider.groups_claim,
        )
        return
    _group_roles_apply(user=user, groups=groups, rules=provider.roles)


def _groups(sociallogin: SocialLogin) -> frozenset[str] | None:
    """The person's groups by the first part that has the claim; None where the provider does not
    say.

    A claim that is absent is not an empty list: a mapper may be gone, or the groups too many for a
    token.
    """
    for part in provider_parts(sociallogin.account.extra_data):
        claim = part.get(_settings(sociallogin).groups_claim)
        if isinstance(claim, str) and claim:
            return frozenset({claim})
        if isinstance(claim, list):
            return frozenset(str(group) for group in claim)
    return None


def _group_roles_apply(
    *, user: User, groups: Collection[str], rules: Collection[GroupRole]
) -> None:
    """Give, change and take this person's roles in the projects of the rules."""
    wanted: dict[str, Role | None] = {rule.project_id: None for rule in rules}
    for rule in rules:
        if rule.group in groups:
            wanted[rule.project_id] = max(
                wanted[rule.project_id] or rule.role, rule.role, key=RANKS.index
            )
    for project_id, role in sorted(wanted.items()):
        try:
            with transaction.atomic():
                _role_apply(user, project_id, role)
        except Conflict as refusal:
            log.warning("%s keeps the role in %s: %s", user.email, project_id, refusal.message)


def _role_apply(user: User, project_id: str, role: Role | None) -> None:
    project = Project.objects.select_for_update(no_key=True).filter(id=project_id).first()
    if project is None:
        log.warning(
            "A rule for groups of the identity provider names %s, which is no project", project_id
        )
        return
    member = Membership.objects.filter(project=project, user=user).first()
    before = Role(member.role) if member else None
    if before == role:
        return
    if role is None:
        assert member is not None, "who has no role has none to lose"
        member_remove(project=project, user=user, member_id=member.member_id)
    elif member is None:
        member = Membership.objects.create(project=project, user=user, role=role)
    else:
        member_role_set(project=project, member_id=member.member_id, role=role)
    audit_record(
        project_id=project.id,
        actor=user.email,
        action="member_role_by_group",
        target={"member_id": member.member_id},
        details={"before": before, "role": role},
    )
