"""What Django serves beside the admin pages and the sign-in: the REST API, health, metrics and the
console's page.
"""

from django.urls import include, path, re_path

from api import pages, sign_in
from api.demo import demo_answer
from api.rest import errors
from api.rest.endpoint import url_patterns
from api.routes import api

urlpatterns = [
    path("v1/", include(url_patterns(api))),
    path("demo/v1/<path:path>", demo_answer),
    path("healthz", pages.healthz),
    path("readyz", pages.readyz),
    path("metrics", pages.metrics),
    path("openapi.json", pages.openapi),
    path("docs", pages.docs),
    path("client/<str:name>", pages.client_package),
    path("sign-in/oidc/begin", sign_in.begin),
    path("sign-in/oidc/callback", sign_in.end),
    re_path(r"^(?:v1|openai|ws|_allauth|static|client)(?:/|$)", errors.not_found),
    re_path(r"^", pages.single_page),
]

# What django-allauth has and this server does not use: another way to begin a sign-in at the
# identity provider, without our limits, tokens from elsewhere in its place, and telephone numbers.
unused = [
    re_path(r"^auth/provider/(?:redirect|token)$", errors.not_found),
    re_path(r"^(?:account/phone|auth/phone/verify(?:/resend)?)$", errors.not_found),
]
