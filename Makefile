# The commands that people type. Set-up is in requirements/install.sh: each of its steps runs once, chains side by side.
PYTHON ?= python3
export PYTHON
SETUP := requirements/install.sh
RUN := .venv/bin/python

.PHONY: help quickstart up test test-postgres frontend check clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^## //p' Makefile

## make quickstart   set-up, then a small model learns a task on this machine
quickstart:
	@$(SETUP) runtime model + frontend
	@$(RUN) sdk/examples/quickstart.py

## make up           set-up, then a server to keep; Ctrl-C ends it
up:
	@$(SETUP) runtime model + frontend
	@$(RUN) manage.py up

## make test         set-up, then the whole suite in three parts side by side; the real engine and trainer take what is left
test:
	@$(SETUP) runtime dev launchers + frontend + browser engines + clients swift
	@$(RUN) tests/side_by_side.py

## make test-postgres   the control plane's tests once more, on PostgreSQL and Redis
test-postgres:
	@$(SETUP) runtime dev launchers engines
	@$(RUN) tests/on_postgres.py

## make frontend     build the console's pages
frontend:
	@$(SETUP) frontend

## make check        style and import contracts
check:
	@$(SETUP) runtime dev launchers
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check --exclude '*.md'
	@.venv/bin/lint-imports

## make clean        remove what set-up made; .data, with the sessions, stays
clean:
	@rm -rf .venv .venv-clients .venv-swift .venv-litellm .venv-trl frontend/node_modules frontend/dist .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
