# Every target is one line over `book`, the command that the environment installs.
MAKEFLAGS += --no-print-directory
BOOK := .venv/bin/book

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' Makefile

site: .venv  ## the book in _book/, executing only what is stale
	@$(BOOK) build

test: .venv-test  ## lint and all tests
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

verify: .venv  ## every number, from nothing, against the committed freeze
	@$(BOOK) verify

verify-matrix: .venv  ## every number in other environments: threads, instruction sets, Pythons
	@$(BOOK) verify-matrix

backends: .venv  ## every number on JAX and on PyTorch, and which entries agree (3 GB)
	@$(BOOK) backends

mutate: .venv  ## break the package in three hundred ways and see the book's numbers notice
	@$(BOOK) mutate

bench: .venv  ## how fast a build is beside other tools: an environment for them, and some minutes
	@$(BOOK) bench

stale: .venv  ## which chapters would be executed, and why
	@$(BOOK) stale

pdf: .venv  ## the book as PDF, in _book/
	@$(BOOK) pdf

epub: .venv  ## the book as EPUB, in _book/
	@$(BOOK) epub

serve: .venv  ## the book on http://127.0.0.1:4848/, rebuilt on every save
	@$(BOOK) serve

doctor:  ## what is missing or odd on this machine, and what to do
	@PYTHONPATH=code $$(test -x .venv/bin/python && echo .venv/bin/python || echo $${PYTHON:-python3}) -m bookbuild.doctor

architecture:  ## draw ARCHITECTURE.md from the code
	@PYTHONPATH=code .venv/bin/python -m bookbuild.architecture

clean:  ## remove the site and the caches; the environment and the freeze stay
	@rm -rf _book .book

lock:  ## choose the newest allowed versions anew (needs uv)
	@sh code/bookbuild/lock.sh

# The environment is made once, and again only when the lock differs in content from the one it was
# made from: the script compares, since a checkout or a touch changes times.
.venv:
	@sh code/bookbuild/environment.sh requirements.lock

.venv-test:
	@sh code/bookbuild/environment.sh requirements-test.lock
	@sh tests/web-tools/install.sh

.PHONY: help site test verify verify-matrix backends mutate bench stale pdf epub serve doctor architecture clean lock .venv .venv-test
.DEFAULT_GOAL := help
