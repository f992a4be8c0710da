# The repository's commands. Each of them makes .venv by itself; Python 3.11 or newer and make are all that has to be there.

PYTHON ?= python3

# Set these on the command line. They are not taken from the environment, where a stray OUT or PART may mean something else.
SUBMISSION = solutions
SUBMISSIONS = tests/submissions
OUT = grades
PART =
DEVICE =
JOBS =
ACCEPT_TIER =

# A misspelt name would be passed over in silence, and an empty folder would mean this one.
known = PYTHON SUBMISSION SUBMISSIONS OUT PART DEVICE JOBS ACCEPT_TIER
unknown := $(filter-out $(known),$(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name))))
$(if $(unknown),$(error There is no setting $(firstword $(unknown)): the settings are $(known)))
$(foreach name,SUBMISSION SUBMISSIONS OUT,$(if $($(name)),,$(error $(name) is empty: give it a path or leave it out)))

# $(call quoted,VALUE): one word of the shell, whatever is in it. $(call option,--name,VALUE): nothing where VALUE is empty.
quoted = '$(subst ','\'',$(1))'
option = $(if $(2),$(1) $(call quoted,$(2)))

python = $(call quoted,$(PYTHON))
run = .venv/bin/python -m

.DEFAULT_GOAL := help
.PHONY: help check grade template handout figures prove test lint clean venv
.NOTPARALLEL:

help: ## list these commands
	@echo "make COMMAND, where COMMAND is one of"
	@sed -n 's/^\([a-z]*\):[^#]*## /\1	/p' Makefile | while IFS='	' read -r name line; do printf '  %-10s %s\n' "$$name" "$$line"; done

check: venv ## the public checks on one submission: [SUBMISSION=solutions] [PART=3] [DEVICE=cuda]
	@$(run) autograder check $(call quoted,$(SUBMISSION)) $(call option,--part,$(PART)) $(call option,--device,$(DEVICE))

grade: venv ## grade a folder of submissions: [SUBMISSIONS=tests/submissions] [OUT=grades] [JOBS=2]
	@$(run) autograder grade $(call quoted,$(SUBMISSIONS)) --out $(call quoted,$(OUT)) $(call option,--jobs,$(JOBS)) $(call option,--accept-tier,$(ACCEPT_TIER))

template: venv ## write the generated files of student_template/ anew
	@$(run) autograder template

handout: venv ## the problem set as a page and as a PDF, into dist/
	@$(run) autograder handout

figures: venv ## draw the handout's figures anew
	@$(run) autograder figures

prove: venv ## the attacks on the sandbox and the mistakes that the checks must catch
	@OMP_NUM_THREADS=1 $(run) pytest -n auto tests/attacks tests/test_checks.py

test: venv ## this repository's own tests
	@OMP_NUM_THREADS=1 $(run) pytest -n auto

lint: venv ## ruff and mypy
	@$(run) ruff check .
	@$(run) ruff format --check .
	@$(run) mypy

clean: ## remove .venv, dist and caches (grades stay)
	rm -rf .venv dist .hypothesis .mypy_cache .ruff_cache
	find . -name .git -prune -o \( -name __pycache__ -o -name .pytest_cache \) -prune -exec rm -rf {} +

# .venv counts as made when made-from, written last, holds the checksum of what it was made from. Times of files say
# nothing in a fresh clone, and a set-up that was interrupted leaves no made-from: both are made anew.
venv:
	@want=$$({ sed '/^\[tool\./,$$d' pyproject.toml; cat requirements.lock; } | cksum); \
	if [ "$$(cat .venv/made-from 2>/dev/null)" = "$$want" ] && .venv/bin/python -c '' 2>/dev/null; then exit 0; fi; \
	complain() { echo "$$1" >&2; exit 2; }; \
	$(python) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || complain \
	  "Python 3.11 or newer is needed, and "$(python)" is not one: name one that is, as in make $(MAKECMDGOALS) PYTHON=python3.12"; \
	$(python) -c 'import ensurepip, venv' 2>/dev/null || complain \
	  $(python)" cannot make virtual environments: install its venv package (Debian, Ubuntu: apt-get install python3-venv) or name another, as in make $(MAKECMDGOALS) PYTHON=python3.12"; \
	echo "Setting up .venv, once. PyTorch is large: this may take some minutes."; \
	rm -rf .venv && $(python) -m venv .venv && \
	.venv/bin/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*p["dependencies"], *p["optional-dependencies"]["dev"], sep="\n")' > .venv/requirements.txt && \
	.venv/bin/python -m pip install -qq --disable-pip-version-check -r .venv/requirements.txt -c requirements.lock || complain \
	  "The set-up did not finish; the lines above say why. Run the same command again once that is put right."; \
	echo "$$want" > .venv/made-from
