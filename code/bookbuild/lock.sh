#!/bin/sh
# Choose the newest versions that pyproject.toml allows, for all supported systems, with hashes.
# Needs uv (https://docs.astral.sh/uv/). The build backend is locked with the rest.
set -eu
compile() { uv pip compile --universal --python-version 3.11 --generate-hashes --upgrade --quiet \
  --no-emit-index-url --no-annotate --no-header "$@"; }
printf 'hatchling\neditables\n' >.build-backend.in
trap 'rm -f .build-backend.in .bench-peers.in .backend.in' EXIT
compile --extra build --extra checkpoint pyproject.toml .build-backend.in -o requirements.lock
compile --extra build --extra checkpoint --extra test pyproject.toml .build-backend.in -c requirements.lock -o requirements-test.lock
# The tools that `book bench` measures beside this one, with the libraries that the book computes with,
# scikit-learn among them: Keras imports it wherever it is installed.
{
  printf 'jupyter-book>=1,<2\nnbconvert\n'
  grep -E '^(keras|tensorflow|tensorflow-cpu|numpy|matplotlib|scikit-learn|scipy|ipykernel)==' requirements.lock | sed 's/ \\$//'
} >.bench-peers.in
compile .bench-peers.in -o code/bookbuild/bench-peers.lock

# What each backend needs besides, for `make backends`: what is in both locks has one version. PyTorch
# for Linux comes with CUDA, and loads most of it even where there is no GPU. Left out is what it does
# not load: a compiler of kernels, its bindings and tools, and two libraries.
backend() { name=$1 && echo "$2" >.backend.in && shift 2
  compile .backend.in -c requirements.lock -o "code/bookbuild/backends-$name.lock" "$@"; }
backend jax 'jax>=0.10'
backend torch 'torch>=2.15' --no-emit-package triton --no-emit-package cuda-bindings \
  --no-emit-package cuda-pathfinder --no-emit-package cuda-toolkit --no-emit-package nvidia-cuda-cccl \
  --no-emit-package nvidia-cusolver --no-emit-package nvidia-nvtx
