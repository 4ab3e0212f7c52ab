# Every target makes the environment it needs: only Python 3.11 or newer and make are assumed.
PYTHON ?= python3
JOBS ?= 2

BIN := .venv/bin
STAMP := .venv/.installed
# One file stays in one worker, so that its compiled programs are reused.
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile

.PHONY: demo test slow check format papers methods long-runs gallery site bench bench-gpu wheel clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(PYTEST)

# All tests, the slow ones as well.
slow: $(STAMP)
	$(PYTEST) -m ""

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Every table and figure of the five papers, as reports in out/papers.
papers: $(STAMP)
	$(BIN)/holonax papers all --out out/papers

# The measurements behind docs/which-method.md.
methods: $(STAMP)
	$(BIN)/python docs/which_method.py

# The measurements behind docs/runs.md.
long-runs: $(STAMP)
	$(BIN)/python docs/long_runs.py

# The documentation as a site in out/site, with a page of the viewer for each mechanism of the
# gallery; it opens from disk.
site: $(STAMP)
	$(BIN)/python -m mkdocs build --strict
	$(BIN)/python docs/make_gallery.py --site out/site

# docs/gallery.md and its pictures, from the examples in docs/gallery.
gallery: $(STAMP)
	$(BIN)/python docs/make_gallery.py

# Peers live in an environment of their own. WORKS="chain first-answer" measures some works only,
# PAIRS=20 the first answer of so many pairs of methods instead of all.
PEERS := exudyn scikit-sundae scipy-dae mujoco mujoco-mjx pin drake numba

bench: .venv-bench/.installed
	.venv-bench/bin/python -m benchmarks.run $(if $(WORKS),--only $(WORKS)) $(if $(PAIRS),--pairs $(PAIRS))

# Ensembles on the GPU of this machine; benchmarks/gpu.py says how to measure on one without holonax.
bench-gpu: $(STAMP)
	$(BIN)/python -m benchmarks.gpu

# A peer without a wheel for this machine is left out; its rows then say so.
.venv-bench/.installed: pyproject.toml
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --editable ".[plot]"
	for peer in $(PEERS); do \
		.venv-bench/bin/python -m pip install --quiet $$peer || echo "no $$peer"; \
	done
	touch $@

wheel: $(STAMP)
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf .venv .venv-bench .jax_cache .pytest_cache .ruff_cache .hypothesis build dist out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@
