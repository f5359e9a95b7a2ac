"""Every address of the server that is HTTP and not the relay's."""

from allauth.headless.constants import Client
from django.contrib import admin
from django.urls import include, path

from api import urls as api_urls
from console.users.mailed_links import AddressConfirmation, PasswordReset

ACCOUNT = "_allauth/browser/v1/"

urlpatterns = [
    path("admin/", admin.site.urls),
    path(f"{ACCOUNT}auth/email/verify", AddressConfirmation.as_api_view(client=Client.BROWSER)),
    path(f"{ACCOUNT}auth/password/reset", PasswordReset.as_api_view(client=Client.BROWSER)),
    path(ACCOUNT, include(api_urls.unused)),
    path("_allauth/", include("allauth.headless.urls")),
    path("", include(api_urls)),
]

handler400 = "api.rest.errors.bad_request"
handler403 = "api.rest.errors.forbidden"
handler404 = "api.rest.errors.not_found"
handler500 = "api.rest.errors.internal"
