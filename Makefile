# Python 3.11 or newer (with venv and headers), a C compiler and make are all this needs: every target makes its own environment, once.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# A python is usable when it runs at all (a version manager's shim may not), is new enough, and can make environments and build extensions.
USABLE := import ensurepip, os, sys, sysconfig, venv; \
	sys.exit(sys.version_info < (3, 11) or not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	"$$python" -c '$(USABLE)' 2>/dev/null && echo "$$python" && break; done)

# The public trace (github.com/alibaba/clusterdata, cluster-trace-gpu-v2023) that `make demo` takes when it is there.
OPENB ?= ../shared/data/openb
OPENB_NODES = $(OPENB)/openb_node_list_all_node.csv
OPENB_PODS = $(OPENB)/openb_pod_list_default.csv
DEMO = $(if $(wildcard $(OPENB_PODS)),--trace openb --order arrival --nodes $(OPENB_NODES) --pods $(OPENB_PODS),examples/demo)

BUILD_INPUTS := pyproject.toml setup.py $(wildcard koordsched/_core/*.pyx koordsched/_core/*.pxd)
PACKAGE := $(BUILD_INPUTS) $(shell find koordsched -name '*.py' -o -name '*.pyi')
CORE_TESTS := tests/unit/core tests/unit/cache tests/unit/framework tests/unit/plugins $(addprefix tests/property/test_,kernels.py shapes.py cache.py)
SANITIZER_ENV = LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

define make_environment
@test -n '$(PYTHON)' && '$(PYTHON)' -c '$(USABLE)' 2>/dev/null || { \
	echo "koordsched needs Python 3.11 or newer with venv, pip and C headers: install one (Debian: python3-venv python3-dev) or say PYTHON=path" >&2; exit 1; }
@command -v '$(firstword $(CC))' >/dev/null || { \
	echo "koordsched needs a C compiler to build its core and found no '$(firstword $(CC))': install gcc or clang, or say CC=name" >&2; exit 1; }
@echo "Building koordsched into $(@D) (some minutes the first time)"
@test -x $(@D)/bin/python || '$(PYTHON)' -m venv $(@D)
endef
# For the image's Python, on every platform that it is built for.
LOCK = .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.13 --generate-hashes --no-emit-index-url --custom-compile-command 'make lock'
PIP_INSTALL = CC='$(CC)' $(@D)/bin/pip install --quiet --disable-pip-version-check

.PHONY: help demo test checked sanitize wheel lint format lock bench side-by-side start-up reservation-events serving-load churn soak mutate differential histories fuzz controlplane browser clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

demo: .venv/.built ## schedule a sample cluster in memory and show what went where, and why the rest waits
	.venv/bin/koord-scheduler simulate $(DEMO)

test: .venv/.ready ## unit, property and e2e tests, then the scheduling scenarios, on the release build
	.venv/bin/pytest --ignore tests/e2e --numprocesses 2
	.venv/bin/pytest tests/e2e --numprocesses 4 --dist worksteal # each on a control plane of its own; they mostly wait
	.venv/bin/koord-scheduler test tests/scenarios

checked: .venv-checked/.ready ## the same, but for e2e, on a build whose core checks every index
	.venv-checked/bin/pytest --ignore tests/e2e --numprocesses 2
	.venv-checked/bin/koord-scheduler test tests/scenarios

sanitize: .venv-sanitize/.ready ## the core's tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(SANITIZER_ENV) .venv-sanitize/bin/pytest --numprocesses 2 $(CORE_TESTS)

WHEEL = build/wheel
WHEEL_SCENARIOS = customresources defaultpreemption dynamicresources nodenumaresource-cpus schedulinghint
wheel: .venv/.ready ## build a wheel, install it in an empty environment and schedule with it, away from the checkout
	rm -rf $(WHEEL)
	timeout 1200 .venv/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(WHEEL) .
	'$(PYTHON)' -m venv $(WHEEL)/venv
	$(WHEEL)/venv/bin/pip install --quiet --disable-pip-version-check $(WHEEL)/*.whl
	cp -r examples/demo $(WHEEL_SCENARIOS:%=tests/scenarios/%.yaml) $(WHEEL)
	cd $(WHEEL) && timeout 300 venv/bin/koord-scheduler test *.yaml
	cd $(WHEEL) && timeout 300 venv/bin/koord-scheduler simulate demo

lint: .venv/.ready ## style, types, and which layer may import which
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/cython-lint koordsched # it calls pycodestyle by name
	.venv/bin/lint-imports

format: .venv/.ready ## rewrite the sources in the project's format
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

lock: .venv/.ready ## resolve the image's Python packages anew, with hashes: requirements.lock, requirements-build.lock
	@.venv/bin/pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
	$(LOCK) pyproject.toml --output-file requirements.lock
	.venv/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | \
		$(LOCK) - --constraints requirements.lock --output-file requirements-build.lock

bench: .venv/.ready ## the benchmarks of bench/, as a table
	.venv/bin/pytest bench --benchmark-only --benchmark-disable-gc --benchmark-columns=min,mean,median,rounds

side-by-side: .venv/.ready ## ours, kube-scheduler and a null binder drain the same backlog on a real API server (ARGS="--rate 300")
	PYTHONPATH=bench:tests .venv/bin/python -m side_by_side $(ARGS)

start-up: .venv/.ready ## from the start of the process to the first decision, with all of Koordinator's objects and without (ARGS="--repeat 3")
	PYTHONPATH=bench:tests .venv/bin/python -m side_by_side.start_up $(ARGS)

reservation-events: .venv/.ready ## Reservations change while pods wait: does anything pile up? (ARGS="--nodes 1000 --pods 10000")
	PYTHONPATH=bench:tests .venv/bin/python -m side_by_side.reservation_events $(ARGS)

serving-load: .venv/.ready ## a backlog is drained without and with a load on all endpoints of the ports (ARGS="--pods 5000 --rate 50")
	PYTHONPATH=bench:tests .venv/bin/python -m serving_load $(ARGS)

churn: .venv/.ready ## pods and nodes come and go for half an hour on a real API server that fails (ARGS="--minutes 30")
	PYTHONPATH=bench:tests .venv/bin/python -m churn $(ARGS)

soak: .venv/.ready ## all that Koordinator's plugins know comes and goes for an hour, and is recounted each minute (ARGS="--minutes 60")
	PYTHONPATH=bench:tests .venv/bin/python -m soak $(ARGS)

mutate: .venv/.ready ## change the sources in small ways and count what no test notices (ARGS="--sample 300 --seed 1")
	PYTHONPATH=bench:tests .venv/bin/python -m mutate $(ARGS)

differential: .venv/.ready ## Koordinator's own scheduler (in the folder KOORDINATOR_ASSETS) and ours decide about random pods (ARGS="--trials 40 --seed 1")
	PYTHONPATH=tests .venv/bin/python -m support.differential.koordinator $(ARGS)

histories: .venv/.ready ## both live through random histories of Reservations, quotas, gangs or gangs in a topology, and what differs is printed (ARGS="--area quotas --seed 2")
	PYTHONPATH=tests .venv/bin/python -m support.differential.histories $(ARGS)

ROUNDS = 5
fuzz: .venv/.ready ## property tests with free seeds, round after round (ROUNDS=20 ARGS=tests/property/test_cache.py)
	@for round in $$(seq $(ROUNDS)); do \
		seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); \
		echo "round $$round of $(ROUNDS): --hypothesis-seed=$$seed"; \
		env -u CI .venv/bin/pytest -m hypothesis --ignore tests/e2e --numprocesses 2 -q --hypothesis-seed=$$seed $(ARGS) || exit 1; \
	done

controlplane: .venv/.ready ## etcd, kube-apiserver, kube-scheduler and Helm for e2e tests and benchmarks, built once (needs Go)
	@PYTHONPATH=tests .venv/bin/python -m support.controlplane build

browser: ## Chromium and its driver for the tests of report pages: on Debian installed as root, else it says what is missing
	@missing=; command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v chromedriver >/dev/null || missing="$$missing chromium-driver"; \
	test -n "$$missing" || exit 0; \
	if test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		echo "Installing$$missing"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing fonts-dejavu-core >/dev/null; \
	else \
		echo "the tests of report pages need$$missing: install these packages of Debian as root, or chromium and chromedriver in another way" >&2; exit 1; \
	fi

clean: ## remove the environments and all that was built
	rm -rf .venv .venv-checked .venv-sanitize build dist *.egg-info
	find koordsched -name '*.so' -delete

# The environment of the release build holds the checkout itself, so that an edit needs no new installation.
.venv/.built: $(BUILD_INPUTS)
	$(make_environment)
	@$(PIP_INSTALL) --editable .
	@$(@D)/bin/python -m compileall -q koordsched # or every start compiles where PYTHONDONTWRITEBYTECODE is set
	@touch $@

# What is tried first, the demo, needs neither tests nor linters, nor the packages of the extras, which are most of what there is to fetch.
.venv/.ready: .venv/.built
	@echo "Installing what tests, linters and benchmarks need into $(@D)"
	@$(PIP_INSTALL) 'koordsched[test,lint,bench]'
	@touch $@

# The other builds are installed, so that the checkout's own compiled core cannot be imported by mistake.
.venv-%/.ready: $(PACKAGE)
	$(make_environment)
	@rm -rf build/$*/lib*
	@KOORDSCHED_BUILD=$* $(PIP_INSTALL) '.[test]'
	@touch $@
