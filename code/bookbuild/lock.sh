#!/bin/sh
# Choose the newest versions that pyproject.toml allows, for all supported systems, with hashes.
# Needs uv (https://docs.astral.sh/uv/). The build backend is locked with the rest.
set -eu
compile() { uv pip compile --universal --python-version 3.11 --generate-hashes --upgrade --quiet \
  --no-emit-index-url --no-annotate --no-header "$@"; }
printf 'hatchling\neditables\n' >.build-backend.in
trap 'rm -f .build-backend.in' EXIT
compile --extra build --extra checkpoint pyproject.toml .build-backend.in -o requirements.lock
compile --extra build --extra checkpoint --extra test pyproject.toml .build-backend.in -c requirements.lock -o requirements-test.lock
