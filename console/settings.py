"""Settings. Everything comes from the environment; a malformed value stops start-up and says which.

variable                default                    meaning
TINKERSCRIPT_DATA       ./.data                    one folder for all state of a one-machine server
TINKERSCRIPT_HOST       127.0.0.1                  address that `manage.py up` listens on
TINKERSCRIPT_PORT       8000                       port that `manage.py up` listens on
TINKERSCRIPT_PUBLIC_URL http://HOST:PORT           origin that clients use; the machine's name where HOST is 0.0.0.0
TINKERSCRIPT_MODELS                                extra base models: name=/folder,name=/folder
TINKERSCRIPT_MAX_RUNTIMES 1                        sessions that may run at once on this machine
TINKERSCRIPT_LAUNCHER   process                    what starts runtimes: scheduling/launchers/options.py
TINKERSCRIPT_PLACES                                a file of further places: see scheduling/launchers/places.py
TINKERSCRIPT_RUNTIME_SERVER_URL (the lease process) origin at which runtimes find the server
TINKERSCRIPT_LEASE_PORT (a free one)               the lease process's, on HOST; a free one: on this machine alone
TINKERSCRIPT_SECRET_KEY DATA/secret_key            signs cookies and episode keys; after a space, the one before it
TINKERSCRIPT_METRICS_TOKEN                         what Prometheus sends to read /metrics; without it: this machine only
TINKERSCRIPT_DEBUG      0                          1: error pages with tracebacks, any folder is a base model
TINKERSCRIPT_SIGN_UP    invited                    closed, invited, open or domains; open where PUBLIC_URL is loopback
TINKERSCRIPT_EMAIL_VERIFICATION mandatory          none, optional or mandatory; optional where PUBLIC_URL is loopback
TINKERSCRIPT_OIDC_ISSUER  an identity provider; more in console/config/oidc.py
TINKERSCRIPT_LIMITS                                what one person and a new project may have: console/config/amounts.py
TINKERSCRIPT_PRICES                                what a device-hour costs, for display: console/config/amounts.py
TINKERSCRIPT_SMTP_URL   (standard output)          mail server: smtp://user:password@host:587?from=sender@host
TINKERSCRIPT_TRUSTED_PROXIES 0                     proxies of ours whose X-Forwarded-For names the client
TINKERSCRIPT_TRUSTED_USERS                         accounts of this machine whose ports are ours: minio,www-data
TINKERSCRIPT_RATE_LIMIT 6000                       requests a minute of one API key, one person or one public link
TINKERSCRIPT_KEEP_DAYS  records=400                days until what sessions leave goes: console/config/amounts.py
TINKERSCRIPT_WEBHOOKS_PRIVATE 0                    1: webhooks and the playground may call private addresses
TINKERSCRIPT_TRACES_URL                            OpenTelemetry collector (OTLP): http://host:4318, as runtimes see it
DATABASE_URL            sqlite in DATA             any URL that dj-database-url reads: console/config/database.py
REDIS_URL               (in memory)                channel layer and cache, for more than one web process
TINKERSCRIPT_WEB_PROCESSES 1                       web processes that `up` runs; more need REDIS_URL
S3_ENDPOINT_URL         (embedded SeaweedFS)       with S3_ACCESS_KEY, S3_SECRET_KEY, S3_BUCKET, S3_REGION
S3_PUBLIC_ENDPOINT_URL  S3_ENDPOINT_URL            the store as clients reach it: console/object_store/links.py
"""

import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from console.config.amounts import keep_days_read, limits_read, prices_read
from console.config.data_folder import data_folder_open
from console.config.database import caches, channel_layers, databases_read, web_processes_read
from console.config.environment import (
    read_int,
    read_models,
    read_origin,
    read_text,
    read_url,
    read_users,
    unknown_refuse,
)
from console.config.mail import mail_settings
from console.config.oidc import oidc_provider, oidc_read
from console.config.private_files import read_or_create
from console.config.sign_up import is_loopback, origin_default, sign_up_read
from console.scheduling.launchers.options import launcher_options_read
from console.scheduling.launchers.places import launchers_named, places_read, tables_read
from console.server.logs import JSON_LINES
from tinkerscript.processes.port_owner import TRUSTED

BASE_DIR = Path(__file__).resolve().parent.parent

# -- This server --------------------------------------------------------------------------------------------------
DATA = Path(read_text("TINKERSCRIPT_DATA", ".data")).expanduser().resolve()
_places = tables_read(read_text("TINKERSCRIPT_PLACES", ""))
_launchers = {read_text("TINKERSCRIPT_LAUNCHER", "process"), *launchers_named(_places)}
data_folder_open(DATA, is_shared_volume="kubernetes" in _launchers)
HOST = read_text("TINKERSCRIPT_HOST", "127.0.0.1")
PORT = read_int("TINKERSCRIPT_PORT", 8000, low=1, high=65535)
PUBLIC_URL = read_origin("TINKERSCRIPT_PUBLIC_URL", origin_default(HOST, PORT))
# Where this machine finds the server: an address that listens everywhere listens on loopback too.
_internal_host = "127.0.0.1" if HOST in ("0.0.0.0", "::") else HOST
INTERNAL_URL = f"http://{_internal_host}:{PORT}"
# Empty: the lease process that `manage.py up` runs, else the web server. See api/lease_process.py.
RUNTIME_SERVER_URL = read_url("TINKERSCRIPT_RUNTIME_SERVER_URL", "", schemes=("http", "https"))
LEASE_PORT = read_int("TINKERSCRIPT_LEASE_PORT", 0, low=0, high=65535)
LEASE_URL = f"http://{_internal_host}:{LEASE_PORT}" if LEASE_PORT else ""
DEBUG = read_text("TINKERSCRIPT_DEBUG", "0", among=("0", "1")) == "1"
# Where the server keeps the secret that it made: the key in force, and in a second line the one
# before it.
SECRET_KEY_FILE = DATA / "secret_key"
if SECRET_KEY_IS_GIVEN := bool(read_text("TINKERSCRIPT_SECRET_KEY", "")):
    _keys = read_text("TINKERSCRIPT_SECRET_KEY", "").split()
    if len(_keys) > 2 or (len(_keys) == 2 and len(_keys[0]) < 32):
        raise ImproperlyConfigured(
            "TINKERSCRIPT_SECRET_KEY is a key, or a key of at least 32 characters, a space and the "
            "one before it: a key has no space in it (openssl rand -hex 32)."
        )
else:
    _keys = read_or_create(SECRET_KEY_FILE, lambda: secrets.token_urlsafe(64)).split()
    if not _keys:
        raise ImproperlyConfigured(f"{SECRET_KEY_FILE} is empty: restore it from a backup.")
SECRET_KEY, *SECRET_KEY_FALLBACKS = _keys
# Proves that the audit log was written here. Never rotated: entries of years ago are checked with
# it.
AUDIT_KEY_FILE = DATA / "audit_key"
AUDIT_KEY = read_or_create(AUDIT_KEY_FILE, lambda: secrets.token_urlsafe(64))
# the relay takes any name that reaches it; cookies and CSRF are bound to PUBLIC_URL below
ALLOWED_HOSTS = ["*"]
# Beside root and this process's own: whose ports of this machine a secret is sent to.
TRUSTED_USERS = read_users(TRUSTED)
METRICS_TOKEN = read_text("TINKERSCRIPT_METRICS_TOKEN", "")

LIMITS = limits_read(PUBLIC_URL)
DEVICE_PRICES = prices_read()
EXTRA_MODELS = read_models("TINKERSCRIPT_MODELS")
MAX_RUNTIMES = read_int("TINKERSCRIPT_MAX_RUNTIMES", 1, low=1, high=1024)

# -- Scheduling: times in seconds ---------------------------------------------------------------------------------
LEASE_S = 15.0
# A runtime that is alive but silent is left this long beyond its lease: a restarting server must
# not cost a session.
SILENCE_GRACE_S = 30.0
# Longest time without progress in each state. Loading reads weights and compiles; a step on a CPU
# takes minutes, and on a busy machine even the registration. A runtime that finds no server gives
# up by itself after ten minutes.
PROGRESS_DEADLINES_S = {"provisioning": 900.0, "loading": 900.0, "ready": 900.0}
STOP_GRACE_S = 60.0  # of an end that was asked for: longest time without progress
STOP_DEADLINE_S = 1800.0  # and in all: a last checkpoint may be large
MAX_RESTARTS = 5
DISK_FLOOR_BYTES = 1 << 30

# -- Storage ------------------------------------------------------------------------------------------------------
# empty: the embedded server
S3_ENDPOINT_URL = read_url("S3_ENDPOINT_URL", "", schemes=("http", "https"))
S3_ACCESS_KEY = read_text("S3_ACCESS_KEY", "")
S3_SECRET_KEY = read_text("S3_SECRET_KEY", "")
S3_BUCKET = read_text("S3_BUCKET", "tinkerscript")
S3_REGION = read_text("S3_REGION", "us-east-1")
if S3_ENDPOINT_URL and not (S3_ACCESS_KEY and S3_SECRET_KEY):
    raise ImproperlyConfigured("S3_ENDPOINT_URL needs S3_ACCESS_KEY and S3_SECRET_KEY beside it.")
S3_PUBLIC_ENDPOINT_URL = read_url("S3_PUBLIC_ENDPOINT_URL", "", schemes=("http", "https"))
if not S3_ENDPOINT_URL and (S3_ACCESS_KEY or S3_SECRET_KEY or S3_PUBLIC_ENDPOINT_URL):
    raise ImproperlyConfigured(
        "S3_ACCESS_KEY, S3_SECRET_KEY and S3_PUBLIC_ENDPOINT_URL do nothing without "
        "S3_ENDPOINT_URL."
    )
if S3_PUBLIC_ENDPOINT_URL and is_loopback(S3_PUBLIC_ENDPOINT_URL) and not is_loopback(PUBLIC_URL):
    raise ImproperlyConfigured(
        f"S3_PUBLIC_ENDPOINT_URL={S3_PUBLIC_ENDPOINT_URL} leads clients of {PUBLIC_URL} to their "
        "own machine: set it to"
        f" the store's address as they reach it, or to {PUBLIC_URL}, which has this server pass "
        "the bytes on."
    )
# Without an address of its own the lease process listens on loopback, whatever HOST is.
LAUNCHER = launcher_options_read(
    server_url=RUNTIME_SERVER_URL or LEASE_URL or "http://127.0.0.1",
    s3_endpoint_url=S3_ENDPOINT_URL,
    most=MAX_RUNTIMES,
)
PLACES = places_read(
    _places,
    server_url=RUNTIME_SERVER_URL or LEASE_URL or "http://127.0.0.1",
    s3_endpoint_url=S3_ENDPOINT_URL,
)
PRESIGNED_URL_S = 900  # for users: they ask again
TRANSFER_URL_S = 6 * 3600  # for runtimes: a plan covers hundreds of gigabytes

DATABASES = databases_read(read_text("DATABASE_URL", f"sqlite:///{DATA / 'console.sqlite3'}"))
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = read_url("REDIS_URL", "", schemes=("redis", "rediss", "unix"))
WEB_PROCESSES = web_processes_read(REDIS_URL)
CHANNEL_LAYERS, CACHES = channel_layers(REDIS_URL), caches(REDIS_URL)

# -- Django -------------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "allauth",
    "allauth.account",
    "allauth.headless",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "drf_spectacular_sidecar",
    *("api", "console", "console.users", "console.audit", "console.live", "console.scheduling"),
    *("console.sessions", "console.tinker", "console.webhooks"),
]
MIDDLEWARE = [
    "console.server.middleware.count_requests",
    "console.server.middleware.security_headers",
    "console.server.middleware.compress_api",
    "console.server.middleware.PageFiles",
    "console.users.sign_in_sessions.SignInMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "api.rest.parsing.account_bodies",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
USE_TZ = True
TIME_ZONE = "UTC"
APPEND_SLASH = False

FRONTEND_DIST = BASE_DIR / "frontend" / "dist"  # the console's built pages; the API works without
STATIC_URL = "/static/"
WHITENOISE_ROOT = FRONTEND_DIST if FRONTEND_DIST.is_dir() else None
WHITENOISE_USE_FINDERS = True


def WHITENOISE_IMMUTABLE_FILE_TEST(path: str, url: str) -> bool:
    """Vite names what it builds by its content: such a file never changes, and a browser may keep
    it for ever.
    """
    return url.startswith("/assets/")


# -- Who is calling -----------------------------------------------------------------------------------------------
AUTH_USER_MODEL = "users.User"
AUTHENTICATION_BACKENDS = [
    "console.users.passwords.backend.PasswordBackend",
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 8},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
ACCOUNT_ADAPTER = "console.users.adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
SIGN_UP = sign_up_read(PUBLIC_URL)
ACCOUNT_EMAIL_VERIFICATION = SIGN_UP.verification
OIDC = oidc_read()
SOCIALACCOUNT_ADAPTER = "console.users.providers.sign_in.SocialAccountAdapter"
# from then on by the provider's id of the person
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
SOCIALACCOUNT_PROVIDERS = oidc_provider(OIDC)
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
# mail the account's owner when a password or second factor changes
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_RATE_LIMITS = {
    # the key is account and network: console/users/adapter.py
    "login_failed": "10/m/ip,5/300s/key",
    # tries at one account from networks that it has not signed in from
    "login_elsewhere": "50/h/key",
    # Anyone can have mails sent to an address of their choice. The last of a day has a link that
    # is still good, so that this keeps no owner out.
    "reset_password": "20/m/ip,5/m/key,20/d/key",
    "confirm_email": "1/180s/key,20/d/key",
    "manage_email": "10/m/user,50/d/user",
    "provider_begin": "30/m/ip",
}
ALLAUTH_TRUSTED_PROXY_COUNT = read_int("TINKERSCRIPT_TRUSTED_PROXIES", 0, low=0, high=10)
MFA_ADAPTER = "console.users.adapter.MFAAdapter"
USERSESSIONS_ADAPTER = "console.users.adapter.SignInsAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "TinkerScript"
MFA_TOTP_TOLERANCE = 1  # clocks of telephones are some seconds off
# An address that its user did not confirm is not locked against its real owner.
MFA_ALLOW_UNVERIFIED_EMAIL = ACCOUNT_EMAIL_VERIFICATION == "none"
globals().update(
    mail_settings(read_text("TINKERSCRIPT_SMTP_URL", ""), name="TINKERSCRIPT_SMTP_URL")
)
HEADLESS_ONLY = True
HEADLESS_CLIENTS = ("browser",)
# the console's page for each kind of link that allauth sends
HEADLESS_FRONTEND_URLS = {
    "account_confirm_email": f"{PUBLIC_URL}/verify-email/{{key}}",
    "account_reset_password": f"{PUBLIC_URL}/reset-password",
    "account_reset_password_from_key": f"{PUBLIC_URL}/reset-password/{{key}}",
    "account_signup": f"{PUBLIC_URL}/signup",
    "socialaccount_login_error": f"{PUBLIC_URL}/signin",
}
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
_keep_days = keep_days_read()
CHECKPOINT_DAYS, RECORD_DAYS = _keep_days.checkpoints, _keep_days.records
EPISODE_DAYS = _keep_days.episodes
TRACES_URL = read_url("TINKERSCRIPT_TRACES_URL", "", schemes=("http", "https"))
RATE_LIMIT_PER_MINUTE = read_int("TINKERSCRIPT_RATE_LIMIT", 6000, low=60, high=1_000_000)
WEBHOOKS_PRIVATE = read_text("TINKERSCRIPT_WEBHOOKS_PRIVATE", "0", among=("0", "1")) == "1"
SESSION_ENGINE = "console.users.sign_in_sessions"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PUBLIC_URL.startswith("https://")

# -- REST: what each endpoint does is in api/rest -------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "api.rest.authentication.KeyAuthentication",
        "api.rest.authentication.CookieAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "EXCEPTION_HANDLER": "api.rest.errors.exception_handler",
}

LOGGING = JSON_LINES
unknown_refuse()
