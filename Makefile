# Each target does all its own set-up: a fresh machine needs only Python >= 3.11, make and pip.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: demo test quick lint bench docs clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install -q -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(VENV)/bin/gough demo palida -o gough-demo --force

test: $(STAMP)
	$(VENV)/bin/ruff check src tests benchmarks examples
	$(VENV)/bin/mypy
	OPENBLAS_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile

quick: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile -m 'not slow'

lint: $(STAMP)
	$(VENV)/bin/ruff check src tests benchmarks examples
	$(VENV)/bin/mypy

bench: $(STAMP)
	$(VENV)/bin/python benchmarks/run.py

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo "open build/docs/index.html"

clean:
	rm -rf $(VENV) gough-demo build
