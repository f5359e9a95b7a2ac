"""Every address of the server that is HTTP and not the relay's."""

from django.contrib import admin
from django.urls import include, path

from api import urls as api_urls

urlpatterns = [
    path("admin/", admin.site.urls),
    path("_allauth/", include("allauth.headless.urls")),
    path("", include(api_urls)),
]

handler400 = "api.rest.errors.bad_request"
handler403 = "api.rest.errors.forbidden"
handler404 = "api.rest.errors.not_found"
handler500 = "api.rest.errors.internal"
