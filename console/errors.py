"""What a service may refuse, and how it travels: every error has a wire code, an HTTP status and a
way on.

DomainError
  InvalidRequest        400  a field is missing, malformed or out of bounds
    UnknownCursor       400  it is of another list, or of another order of it
    UnknownBaseModel    400  details.known lists the catalogue
    DoesNotFit          400  it needs more memory than one runtime may use
  Unauthenticated       401  no key, or a wrong, revoked or expired one
  BudgetExhausted       402  what was allowed to be spent is spent
  Forbidden             403  known, but not allowed to do this
  NotFound              404  no such row, or another tenant's: the response is the same
  Conflict              409  the row is not in a state that allows this
    StaleLease          409  another runtime holds the session now
    SessionFailed       409  details carry the failure's code, cause and hint
  QuotaExceeded         429  the project has as many as it may have; details.limit
  RateLimited           429  too many requests in this window; details.retry_after_s
  SessionNotReady       503  ask again in a moment
  StorageUnavailable    503  the object store does not respond
    DiskFull            507  its disk is nearly full; refused before anything was written
"""

from typing import Any, Self

from tinkerscript.wire.errors import ErrorCode


class DomainError(Exception):
    """Base of all. ``message`` says what is wrong, ``hint`` what to do next, ``details`` are for
    programs.
    """

    code = ErrorCode.INTERNAL
    status = 500

    def __init__(
        self, message: str, *, hint: str = "", details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details or {}


class InvalidRequest(DomainError):
    code = ErrorCode.INVALID_REQUEST
    status = 400

    @classmethod
    def of_field(cls, field: str, problem: str, *, hint: str, message: str = "") -> Self:
        """One that names the field as the parser's refusals do: a form shows it there."""
        details = {"fields": [{"field": field, "problem": problem}]}
        return cls(message or problem, hint=hint, details=details)


class UnknownCursor(InvalidRequest):
    def __init__(self) -> None:
        super().__init__(
            "This cursor belongs to no page of this list.", hint="Start again without a cursor."
        )


class UnknownBaseModel(InvalidRequest):
    code = ErrorCode.UNKNOWN_BASE_MODEL


class ModelUnsupported(InvalidRequest):
    code = ErrorCode.MODEL_UNSUPPORTED


class DoesNotFit(InvalidRequest):
    code = ErrorCode.DOES_NOT_FIT


class Unauthenticated(DomainError):
    code = ErrorCode.UNAUTHENTICATED
    status = 401


class BudgetExhausted(DomainError):
    code = ErrorCode.BUDGET_EXHAUSTED
    status = 402


class Forbidden(DomainError):
    code = ErrorCode.FORBIDDEN
    status = 403


class NotFound(DomainError):
    code = ErrorCode.NOT_FOUND
    status = 404


class Conflict(DomainError):
    code = ErrorCode.CONFLICT
    status = 409


class StaleLease(Conflict):
    code = ErrorCode.STALE_LEASE


class SessionFailed(Conflict):
    code = ErrorCode.SESSION_FAILED


class QuotaExceeded(DomainError):
    code = ErrorCode.QUOTA_EXCEEDED
    status = 429


class RateLimited(DomainError):
    code = ErrorCode.RATE_LIMITED
    status = 429


class SessionNotReady(DomainError):
    code = ErrorCode.SESSION_NOT_READY
    status = 503


class StorageUnavailable(DomainError):
    code = ErrorCode.STORAGE_UNAVAILABLE
    status = 503


class DiskFull(StorageUnavailable):
    code = ErrorCode.DISK_FULL
    status = 507
