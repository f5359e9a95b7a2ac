# The commands that people type. Set-up is in requirements/install.sh: each of its steps runs once, chains side by side.
PYTHON ?= python3
export PYTHON
# Modules that are compiled once and kept: without them each process of ours starts half a second later.
unexport PYTHONDONTWRITEBYTECODE
SETUP := requirements/install.sh
RUN := .venv/bin/python
# What runs sessions, which set-up chose: the builds for CPUs, or for CUDA where this machine has GPUs. BUILD=cpu and
# BUILD=cuda choose by hand (make up BUILD=cpu). The suite is for CPUs.
SERVER = $$(cat .venv/stamps/server-python)

.PHONY: help quickstart up test test-all nightly gpu check sbom release lock light test-postgres frontend clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^## //p' Makefile

## make quickstart   set-up, then a small model learns a task on this machine
quickstart:
	@$(SETUP) runtime model + pages
	@$(SERVER) sdk/examples/quickstart.py

## make up           set-up, then a server to keep; Ctrl-C ends it
up:
	@$(SETUP) runtime model + frontend
	@$(SERVER) manage.py up

## make test         set-up, the checks, the quick tests and one case of each kind with its real parts
test:
	@BUILD=cpu $(SETUP) runtime tests model + frontend + browser
	@$(RUN) tests/checks.py
	@$(RUN) -m pytest --quick --smoke -n auto --dist loadfile --no-loadscope-reorder -rfEs

## make test-all     set-up of everything that a test starts, the checks, then every case
test-all:
	@BUILD=cpu $(SETUP) runtime tests model + frontend + browser engines
	@-$(RUN) tests/environments/build.py swift evaluators cookbook ray-dashboard
	@$(RUN) tests/checks.py
	@CONSOLE_SCREENSHOTS="$(CURDIR)/.data/screenshots" $(RUN) -m pytest -m "not engine and not nightly" -n 2 --dist loadfile -rfEs; \
	others=$$?; $(RUN) -m pytest -m "engine and not nightly" -rfEs && exit $$others

## make nightly      set-up, then what takes hours: outside agents, kills, storms, other databases; writes docs/nightly.md
nightly:
	@BUILD=cpu $(SETUP) runtime tests engines + browser
	@-command -v firefox-esr firefox >/dev/null || timeout 600 $(RUN) -m playwright install firefox
	@-$(RUN) tests/environments/build.py evaluators cookbook ray-dashboard
	@$(RUN) tests/nightly.py

## make gpu          on a machine with GPUs: set-up into .venv-cuda, correctness, speed, GSM8K; writes tests/gpu/RESULTS.md
gpu:
	@$(SETUP) cuda
	@-$(RUN) tests/environments/build.py trl --beside .venv-cuda
	@.venv-cuda/bin/python tests/gpu/run.py $(OPTIONS)

## make light        set-up without torch or vLLM, to work on the control plane, the client, the gateway or the docs
light:
	@$(SETUP) light

## make test-postgres   the control plane's tests once more, on PostgreSQL and Redis
test-postgres:
	@BUILD=cpu $(SETUP) runtime tests engines
	@$(RUN) tests/on_postgres.py

## make frontend     build the console's pages
frontend:
	@$(SETUP) frontend

## make sbom          what a release is made of, from the locks: dist/sbom.json (CycloneDX)
sbom:
	@mkdir -p dist && $(PYTHON) requirements/sbom.py >dist/sbom.json

## make release      an archive with the console built, the client's wheel, what they are made of: dist/release/
release:
	@$(SETUP) light frontend
	@requirements/release.sh

## make lock         the hashes of what is installed, anew from the groups of pyproject.toml (OPTIONS=--upgrade for newer versions)
lock:
	@requirements/lock.sh $(OPTIONS)

## make check        set-up, then what needs no server: style, types, contracts, the front end's tests
check:
	@BUILD=cpu $(SETUP) runtime tests + frontend
	@$(RUN) tests/checks.py

## make clean        remove what set-up made; .data, with the sessions, stays
clean:
	@rm -rf .venv .venv-* .venv.old-* .frontend-new* frontend/node_modules frontend/dist .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
