"use strict";

// What the page's own session needs: the CSRF token for requests that write, and the project chosen in the console.
function cookie(name) {
  const found = document.cookie.split("; ").find((entry) => entry.startsWith(`${name}=`));
  return found ? decodeURIComponent(found.slice(name.length + 1)) : "";
}

function withSession(request) {
  if (new URL(request.url, location.href).origin !== location.origin) throw new Error("Only this server is asked.");
  request.credentials = "same-origin";
  const csrf = cookie("csrftoken");
  const project = localStorage.getItem("project");
  if (csrf && !["GET", "HEAD"].includes(request.method || "GET")) request.headers["X-CSRFToken"] = csrf;
  if (project && !request.headers.Authorization && !request.loadSpec) request.headers["X-Project-Id"] = project;
  return request;
}

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  layout: "BaseLayout",
  presets: [SwaggerUIBundle.presets.apis],
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  validatorUrl: null, // by default the page would send the document's address to another host
  requestInterceptor: withSession,
});
