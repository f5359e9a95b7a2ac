# The control plane: web server, reconciler, and the S3 server of compose.yaml. From the root of the repository:
#   docker build -f docker/control-plane.Dockerfile -t tinkerscript-server:0.2.0 .
# Another base, such as one of your own registry: --build-arg PYTHON_IMAGE=... --build-arg NODE_IMAGE=...
ARG PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
ARG NODE_IMAGE=node:24-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d

FROM ${NODE_IMAGE} AS pages
WORKDIR /app/frontend
COPY frontend/package.json frontend/package-lock.json ./
RUN npm ci --no-audit --no-fund --no-update-notifier
COPY openapi.json mkdocs.yml /app/
COPY docs /app/docs
COPY frontend ./
RUN npm run build

FROM ${PYTHON_IMAGE}
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app
COPY requirements/server.txt requirements/
# Files that the lock has the hashes of, and no code of a package is run to build it. An index that builds packages itself
# has others: requirements/lock.sh writes the lock anew from it.
RUN python3 -m pip install --require-hashes --only-binary :all: -r requirements/server.txt
COPY manage.py openapi.json pyproject.toml README.md LICENSE ./
COPY docker/*.sh docker/
COPY sdk sdk
COPY api api
COPY console console
COPY --from=pages /app/frontend/dist frontend/dist
ENV PYTHONPATH=/app:/app/sdk DJANGO_SETTINGS_MODULE=console.settings TINKERSCRIPT_DATA=/data TINKERSCRIPT_HOST=0.0.0.0
# The same user as a runtime's: session folders on a shared volume belong to both.
RUN install -d -o 10001 -g 10001 -m 0700 /data
USER 10001:10001
EXPOSE 8000
CMD ["python3", "-m", "console.server.uvicorn"]
