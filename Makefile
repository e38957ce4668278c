# Habits. `make run` looks at this machine, `make test` tests; both install what they need into $(VENV).

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# For what CI varies: a constraints file, a choice of tests.
PIP_ARGS ?=
PYTEST_ARGS ?=
# Two more than there are cores, as tests wait a quarter of their time: for deadlines, for programs that they started.
# 0 is one process in which a debugger can stop (tests/support/workers.py says who takes what).
PROCESSES ?= $(shell expr $$(nproc) + 2)
# Byte code is kept: without it each of the thousands of processes that tests start compiles all anew, and so does
# each worker the tests.
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest
# Debian packages with the programs that tests set scenes with.
TEST_PACKAGES = e2fsprogs fish fuse3 g++ groff-base iproute2 iptables jq man-db mount nftables perl procps ripgrep tcsh tmux util-linux zsh
# Those that are large, or bring services which a machine would start at its next boot: for machines of CI alone.
TEST_SERVICES = chromium dbus firewalld munge openssh-server slurm-client slurmctld slurmd ufw
CATALOGUES = $(wildcard src/npudoctor/locale/*/LC_MESSAGES/*.po)
# With those of the package that work it out: without it all answers are the same, only later.
EXPLAIN = src/npudoctor/explain
SIGNATURES := $(wildcard src/npudoctor/knowledge/signatures/*.toml src/npudoctor/knowledge/signatures/*/*.toml) $(addprefix $(EXPLAIN)/, \
	$(shell sed -n '/^_CODE = /,/^$$/s/.*"\(.*\.py\)".*/\1/p' $(EXPLAIN)/signatures/prepared.py))
# What commands declare, of which the table of plain lines, completion and manual pages are made.
COMMANDS := $(wildcard src/npudoctor/cli/*.py src/npudoctor/cli/fleet/*.py) src/npudoctor/cli/arguments/options.py

export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help run test test-quick lint typed format bench docs picture site messages package wheelhouse locked clean test-deps scenarios torture explain-score \
	explain-signatures explain-evidence environments new-check release-check starts

help:
	@echo "make run        check this machine and say the exit status"
	@echo "make test       run the tests (PYTEST_ARGS=... to choose, PROCESSES=0 for one process)"
	@echo "make test-quick the first test run: what starts no command and needs no whole machine, in two minutes"
	@echo "make lint       ruff, mypy --strict, names and comments, the message catalogues, the documentation; silent when all is well"
	@echo "make format     let ruff format the sources and mend what it can"
	@echo "make bench      measure the promises about speed"
	@echo "make scenarios  whole machines, healthy and with one fault each: the table and both rates"
	@echo "make starts     real jobs on broken and on odd machines, then npudoctor check on the same (as root, half an hour)"
	@echo "make torture    a thousand rounds of hostile users and kills against fix --cache-server (as root)"
	@echo "make explain-score FILE=x.jsonl   the scores of explain on a file of cases, or a folder of whole logs"
	@echo "make explain-signatures FILE=...  the signatures that fire on healthy logs of these, or on none"
	@echo "make explain-evidence FILE=...    judged excerpts of real logs, for and against the signatures"
	@echo "make docs       rewrite the index of checks and the generated pages of docs"
	@echo "make picture    draw the picture of the READMEs from a rehearsal, in both languages"
	@echo "make site       the documentation site in both languages, into site/"
	@echo "make new-check ID=driver-version GROUP=cann   write the skeleton of a check, its test and its fault"
	@echo "make release-check  what only a release waits for: every sentence is there in Chinese"
	@echo "make messages   bring the message catalogues up to date"
	@echo "make environments  breaks real environments, imports them, runs what is shown (an hour)"
	@echo "make package    build sdist, wheel, the one file npudoctor.pyz, their sums and SBOM into dist/"
	@echo "make wheelhouse the same, and all wheels for pip on machines without an index"
	@echo "make locked     pin what packages carry: the newest versions of today"
	@echo "make test-deps  install the Debian packages that the tests need (as root)"
	@echo "make clean      remove all that was made here"

# A stamp for each set of extras. pip runs again when what is installed, or how it is built, has changed;
# sources need no reinstall, as the install is editable.
STAMP_NEEDS = pyproject.toml $(wildcard build_backend/*.py start/* start/.npudoctor*) $(CATALOGUES) $(SIGNATURES) $(COMMANDS) $(BIN)/python

# setuptools warns at each editable install that [tool.distutils] is experimental; nothing can be done about that here.
INSTALL = env PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet $(PIP_ARGS)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: $(STAMP_NEEDS)
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.installed-test: $(STAMP_NEEDS)
	$(INSTALL) --editable ".[test]"
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-package: $(STAMP_NEEDS)
	$(INSTALL) --editable ".[package]"
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: $(STAMP_NEEDS)
	$(INSTALL) --editable ".[dev,test]"
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test

# mypy reads the tree as it is installed, with checks inside the package. Apart from it, whatever one check imports from
# the file of another has no type: a renamed attribute passed.
typed:
	@rm -rf .typed && mkdir -p .typed/npudoctor && ln -s $(CURDIR)/src/npudoctor/* $(CURDIR)/checks .typed/npudoctor/

# 0 ready, 1 not ready, 2 undetermined: in each case a report was made, and that is what is asked for here.
run: $(VENV)/.installed
	@$(BIN)/python tools/check_here.py $(BIN)/npudoctor check

test: $(VENV)/.installed-test
	$(PYTEST) -n $(PROCESSES) $(PYTEST_ARGS)

test-quick: $(VENV)/.installed-test
	$(PYTEST) -q -n $(PROCESSES) -m "not whole and not slow and not release" $(PYTEST_ARGS)

# step REMEDY COMMAND...: only a command that fails is heard, and then its remedy. The others run too, so that one call
# shows everything that is to be corrected.
STEP = failed=0; step() { \
	remedy=$$1; shift; \
	said=$$("$$@" 2>&1) || { printf '%s\n' "$$said" "make $@: $$remedy" >&2; failed=1; }; \
}

lint: $(VENV)/.installed-dev typed
	@$(STEP); \
	step "run make format, then correct the lines above by hand" $(BIN)/ruff check --quiet .; \
	step "run make format" $(BIN)/ruff format --quiet --check .; \
	step "correct the types above" $(BIN)/mypy --no-error-summary; \
	step "do what the lines above ask for" $(BIN)/python tools/names.py; \
	step "reword these sentences: subject, verb, object; one idea each" $(BIN)/python tools/wording.py; \
	step "correct these translations in src/npudoctor/locale" $(BIN)/python tools/messages.py --check; \
	step "run make docs" $(BIN)/python tools/index.py --check; \
	step "run make docs" $(BIN)/python tools/readme.py --check; \
	step "correct the examples above, or what prints them" $(BIN)/python tools/transcripts.py --check; \
	exit $$failed

# A release waits for what a change need not bring: the whole catalogue, and every finding in Chinese.
release-check: $(VENV)/.installed-test
	@$(STEP); \
	step "run make messages, then fill in the Chinese in src/npudoctor/locale" $(BIN)/python tools/messages.py --release; \
	step "fill in the Chinese in src/npudoctor/locale, then run make messages" $(PYTEST) -q -m release tests/core; \
	exit $$failed

new-check: $(VENV)/.installed
	@$(BIN)/python tools/new_check.py "$(ID)" "$(GROUP)"

# Formatted first, so that ruff reports only what it cannot fix; and last, because its fixes may make a line longer.
format: $(VENV)/.installed-dev
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet . || { echo "make format: correct the lines above by hand" >&2; exit 1; }

# All broken environments, and what npudoctor shows is run; 10 GB are kept for the next time.
environments: $(VENV)/.installed-test
	NPUDOCTOR_ENVIRONMENTS=all NPUDOCTOR_REMEDIES=1 NPUDOCTOR_DEEP=1 $(PYTEST) -q \
	    -m real_environments -n 2 --dist worksteal $(PYTEST_ARGS)

bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/logs.py
	$(BIN)/python benchmarks/fleet.py

docs: $(VENV)/.installed-test
	$(BIN)/python tools/index.py
	$(BIN)/python tools/readme.py

picture: $(VENV)/.installed-test
	$(BIN)/python tools/picture.py

# Its tools have a virtual environment of their own: they are large, and nothing else needs them.
# By its own pip: another's --python is unknown to pip before 22.3, as Ubuntu 22.04 has it.
$(VENV)-site/.installed: tools/locked/site.txt
	$(PYTHON) -m venv $(VENV)-site
	$(VENV)-site/bin/python -m pip install --quiet --no-compile --require-hashes --requirement tools/locked/site.txt
	@touch $@

site: $(VENV)/.installed $(VENV)-site/.installed
	$(BIN)/python tools/site.py $(VENV)-site/bin/mkdocs site
	@echo "site/index.html, site/zh/index.html"

messages: $(VENV)/.installed-test
	$(BIN)/python tools/messages.py
	$(BIN)/python build_backend/npudoctor_build.py

# The time that files in packages bear, so that two builds of one commit are the same bytes.
package wheelhouse: export SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),315532800)

package: $(VENV)/.installed-package
	rm -rf dist
	PIP_CONSTRAINT=$(CURDIR)/tools/locked/build.txt $(BIN)/python -m build --outdir dist --config-setting=--global-option=--quiet
	$(BIN)/twine check --strict dist/npudoctor-*
	$(BIN)/python tools/one_file.py dist/npudoctor-*.whl dist/npudoctor.pyz dist/npudoctor.cdx.json
	cd dist && sha256sum -- npudoctor* >SHA256SUMS

wheelhouse: package
	$(BIN)/python tools/wheelhouse.py dist/npudoctor-*.whl "$$(ls dist/npudoctor-*.whl | cut -d- -f1,2)-wheelhouse.tar"
	cd dist && sha256sum -- npudoctor* >SHA256SUMS

locked: $(VENV)/.installed-package
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python tools/lock.py

test-deps:
	@wanted="$(TEST_PACKAGES) $(if $(CI),$(TEST_SERVICES))"; missing=$$(for package in $$wanted; do \
		dpkg -s $$package >/dev/null 2>&1 || echo $$package; \
	done | tr '\n' ' '); \
	if [ -z "$$missing" ]; then echo "test-deps: all there ($$wanted)"; \
	elif ! command -v apt-get >/dev/null; then echo "test-deps: no apt-get here; the tests want $$missing"; \
	elif [ "$$(id -u)" != 0 ]; then echo "test-deps: needs root for: apt-get install $$missing"; \
	else apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing; fi

clean:
	rm -rf .venv .venv-* build dist site share *.egg-info .mypy_cache .pytest_cache .ruff_cache
	rm -f $(CATALOGUES:.po=.mo) src/npudoctor/explain/table.json src/npudoctor/cli/arguments/plain.json
	find src checks tests tools build_backend -name __pycache__ -prune -exec rm -rf {} +

scenarios: $(VENV)/.installed-test
	$(BIN)/python -m tests.scenarios

# Does each job start where it should; and what is said there. STARTS_CACHE keeps PyTorch and MindSpore (4 GB).
starts: $(VENV)/.installed-test
	$(BIN)/python -m tests.starts truth
	$(BIN)/python -m tests.starts check
	$(BIN)/python -m tests.starts remedies

# NPUDOCTOR_SEED repeats a run, NPUDOCTOR_FIRST and NPUDOCTOR_ROUNDS choose its rounds.
torture: $(VENV)/.installed-test
	$(BIN)/python -m tests.torture

# Lines of JSON with id, category, environment, log.
explain-score: $(VENV)/.installed
	$(BIN)/python tools/explain_score.py $(FILE)

explain-evidence: $(VENV)/.installed
	$(BIN)/python tools/explain_evidence.py $(FILE)

explain-signatures: $(VENV)/.installed
	$(BIN)/python tools/explain_score.py --signatures $(FILE)
