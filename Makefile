# The two commands of a newcomer are `make demo` and `make test`.
PYTHON := $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV := .venv

.PHONY: demo demo-clean test test-unit test-long benchmark lint clean

demo:
	@$(PYTHON) tests/simulation/demo.py up

demo-clean:
	@$(PYTHON) tests/simulation/demo.py clean

$(VENV)/.complete: requirements-test.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --require-hashes --requirement requirements-test.txt
	touch $@

test: $(VENV)/.complete
	$(VENV)/bin/python tests/tiers.py

test-unit: $(VENV)/.complete
	$(VENV)/bin/python -m pytest -m "not slow and not long" tests/unit

lint: $(VENV)/.complete
	$(VENV)/bin/python tests/tiers.py static lint docs

test-long: $(VENV)/.complete
	$(VENV)/bin/python -m pytest -m long tests/e2e

# All benchmarks, or those named: make benchmark ONLY="hub_kill hub_writers"
benchmark: $(VENV)/.complete
	@PYTHONPATH=tests:.collections $(VENV)/bin/python -m benchmarks $(ONLY)

clean: demo-clean
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache
