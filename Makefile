# Everything that is done to this repository is a target here; `make help` lists them.
# A clean clone needs Python 3.11+ and make: every target first brings .venv up to date, which takes no time
# when pyproject.toml and constraints.txt have not changed.

.DEFAULT_GOAL := help

PYTHON ?= python3
CAMPAIGN ?= qr2
VENV := .venv
BIN := $(VENV)/bin

# $(call option,DSN,--dsn) gives `--dsn 'value'` when the variable is set to something, else nothing.
# The value is taken as it was typed, so that a password may contain spaces, quotes and dollars.
option = $(if $(value $1),$2 '$(subst ','\'',$(value $1))')

# A DSN that happens to be in the environment never makes a campaign kill servers of another project.
DSN_GIVEN = $(if $(filter command%,$(origin DSN)),$(call option,DSN,--dsn))

RUN_OPTIONS = $(call option,FLOWS,--flows) $(call option,KILLS,--kills) $(call option,SEED,--seed) \
	$(call option,OUT,--out) $(call option,ENGINE,--engine) $(call option,POSTGRES,--postgres) \
	$(DSN_GIVEN) $(if $(filter-out 0 no false,$(KEEP)),--keep) $(ARGS)

# GNU make turns every failure into exit code 2, so the program's own code is told before it is lost.
TELL_CODE = code=$$?; if [ $$code -ne 0 ]; then echo "$@: the exit code is $$code (1 FAIL,\
 2 INCONCLUSIVE or interrupted, 3 broken or wrong usage); make itself reports any failure as 2" >&2; fi; exit $$code

.PHONY: help install chaos sabotage explore test model check ci bench bench-compare bench-publish report wheel-check clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo '  Variables of chaos: CAMPAIGN=qr2|isolated|boundaries|faults|zombies FLOWS= KILLS= (per arm) SEED= OUT=dir'
	@echo '    ENGINE=reference|naive POSTGRES=16|18|docker DSN= KEEP=1 ARGS="further options"'
	@echo '    FLOWS alone takes KILLS in proportion (qr2: 1 per 100 flows), and at least one of each kind of kill.'
	@echo '    boundaries with few FLOWS is INCONCLUSIVE: its last arms need flows enough for nodes to stop among them.'
	@echo '    OUT keeps its old bundle until the new run has a server. KEEP=1 tells at the end what it has kept.'
	@echo '  Variables of bench: QUICK=1 OUT=dir SEED= POSTGRES=16|18 ARGS="further options"'
	@echo '  PYTHON=python3.12 chooses the interpreter of a new .venv (3.11 or newer).'
	@echo '  Exit codes 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 broken rig are those of `$(BIN)/ninelives-rig run`'
	@echo '  and of `$(BIN)/python -m ninelives_bench run`. ninelives-rig: 2 when interrupted, 3 for wrong usage too.'
	@echo '  A failure is printed by make as "Error N"; its own exit code is then 2, whatever N is.'

install: ## create or refresh .venv (does nothing when nothing changed)
	@PYTHON='$(PYTHON)' bash .ci/install $(if $(filter command%,$(origin PYTHON)),--python-given)

chaos: install ## kill workers across 10 000 flows per arm, judge, write a report (see variables below)
	@$(BIN)/ninelives-rig run '$(CAMPAIGN)' $(RUN_OPTIONS); $(TELL_CODE)

sabotage: install ## plant every mutant and show that each one is caught, by name
	@$(BIN)/ninelives-rig sabotage $(call option,SEED,--seed) $(call option,OUT,--out) \
	  $(call option,POSTGRES,--postgres) $(DSN_GIVEN) $(ARGS); $(TELL_CODE)

explore: install ## run the store's operations against each other in every order of their statements
	@$(BIN)/ninelives-rig explore $(call option,OUT,--out) $(call option,POSTGRES,--postgres) $(DSN_GIVEN) $(ARGS); \
	  $(TELL_CODE)

test: install ## all tests, style included, those that kill processes alone at the end (under 10 minutes)
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile -m 'not chaos' $(ARGS) || [ $$? -eq 5 ]
	@$(BIN)/python -m pytest -q -m chaos $(ARGS) || [ $$? -eq 5 ]

model: install ## explore the whole model of the store protocol and its mutants (15 minutes, up to 6 GB)
	@$(BIN)/python -m tests.model $(ARGS)

check: install ## ruff, mypy, style, unit and checker tests (under 60 seconds)
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m 'not slow' tests/style tests/unit tests/checkers $(ARGS)

ci: ## what the build server runs: check, test, wheel-check
	@bash .ci/run

bench: install ## measure what a durable step costs, beside PostgreSQL itself (40 minutes; QUICK=1: two)
	@$(BIN)/python -m ninelives_bench run $(if $(filter-out 0 no false,$(QUICK)),--quick) $(call option,OUT,--out) \
	  $(call option,SEED,--seed) $(call option,POSTGRES,--postgres) $(ARGS); $(TELL_CODE)

bench-compare: install ## compare two result folders: make bench-compare A=dir B=dir
	@$(if $(and $(value A),$(value B)),,echo 'make bench-compare: name two result folders: A=dir B=dir' >&2; exit 1;) \
	  $(BIN)/python -m ninelives_bench compare $(call option,A,) $(call option,B,) $(ARGS); $(TELL_CODE)

bench-publish: install ## write reports/published/B7.md and B8.md from a whole run: make bench-publish BENCH=dir
	@$(if $(value BENCH),,echo 'make bench-publish: name the result folder: make bench-publish BENCH=dir' >&2; exit 1;) \
	  $(BIN)/python -m ninelives_bench publish $(call option,BENCH,) $(ARGS); $(TELL_CODE)

report: install ## write report.md and plots again from a bundle: make report BUNDLE=dir
	@$(if $(value BUNDLE),,echo 'make report: name the bundle: make report BUNDLE=reports/evidence/NAME' >&2; exit 1;) \
	  $(BIN)/ninelives-rig report $(call option,BUNDLE,) $(ARGS); $(TELL_CODE)

wheel-check: install ## build the wheel, install it in a fresh environment, run the README's example there
	@$(BIN)/python .ci/wheel_check.py

clean: ## remove .venv, caches and build results (keeps reports and evidence)
	@rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find runtime rig scenarios benchmarks reports tests -name __pycache__ -type d -prune -exec rm -rf {} +
