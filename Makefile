# SPDX-License-Identifier: Apache-2.0
# The verbs of the project. Each is a thin call of a playbook or a program that can be run without make as well.
# With VERBOSE=1 they print all that the programs print, which otherwise goes to report/logs/.

SHELL := /bin/bash
.DEFAULT_GOAL := help
export VERBOSE
PLAY := scripts/play
PYTEST := .venv/bin/pytest
LAB := .venv/bin/python -m lab
DRIVER ?= auto
BENCH_SIZES ?= 10 100 1000 4000
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup lab lab-up lab-down lab-status lab-reboot lab-kill lab-start lab-save lab-load \
    status verify audit report notebook \
    test test-long lint sanity test-unit test-live test-notebook test-browser test-lab test-upgrade test-vm test-uml \
    test-fresh test-fresh-quick bench collection docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make the virtual environment with the pinned requirements
	@scripts/setup

lab: setup ## start the lab, install, bring up the networks, verify, audit, report (DRIVER=vm|nspawn|uml|auto)
	@.venv/bin/python -m scripts.make_lab --driver $(DRIVER)

lab-up: setup ## only start the lab's hosts
	@.venv/bin/python -m scripts.make_lab --hosts --driver $(DRIVER)

lab-down: setup ## remove the lab; images, kernels and checkpoints stay in the cache
	@$(LAB) down

lab-status: setup ## show the lab's hosts
	@$(LAB) status

lab-reboot: setup ## reboot a host: make lab-reboot HOST=node2
	@$(LAB) reboot $(HOST)

lab-kill: setup ## cut a host's power: make lab-kill HOST=node2
	@$(LAB) kill $(HOST)

lab-start: setup ## start a host that was killed: make lab-start HOST=node2
	@$(LAB) start $(HOST)

lab-save: setup ## save the disks of the lab's hosts: make lab-save NAME=converged
	@$(LAB) save $(NAME)

lab-load: setup ## restore the lab's hosts from a checkpoint: make lab-load NAME=converged
	@$(LAB) load $(NAME)

status: setup ## show hosts, networks and workloads of the lab
	@$(PLAY) playbooks/status.yml

verify: setup ## send packets between all workloads of the lab
	@$(PLAY) playbooks/verify.yml

audit: setup ## compare the lab's hosts with the plan
	@$(PLAY) playbooks/audit.yml

report: setup ## run the notebooks on the lab's results and write report/first_light.html and gateways.html
	@.venv/bin/python -m scripts.report

notebook: setup ## open JupyterLab on the walkthroughs (on this machine only, with a token)
	@.venv/bin/jupyter lab --ip=127.0.0.1 $(if $(filter 0,$(shell id -u)),--allow-root) \
	    --notebook-dir=notebooks/walkthroughs

test: setup ## everything that CI runs
	@.venv/bin/python -m scripts.run_tests

test-long: setup ## what takes too long for every change: all drivers, repeated runs, fresh systems
	@.venv/bin/python -m scripts.run_tests --long

lint: setup ## ruff, yamllint, ansible-lint, changelog fragments
	@.venv/bin/python -m scripts.run_tests lint

sanity: setup ## ansible-test sanity of the collection, without ignore files
	@.venv/bin/python -m scripts.run_tests sanity

test-unit: setup ## unit and golden tests, without root or daemons
	@.venv/bin/python -m scripts.run_tests unit

test-live: setup ## tests against real ovsdb-server, ovn-northd and ovn-trace
	@.venv/bin/python -m scripts.run_tests live

test-notebook: setup ## run the notebooks on sample data
	@$(PYTEST) tests/unit/notebook

test-browser: setup ## pages in headless Chromium, where chromium and chromium-driver are installed
	@.venv/bin/python -m scripts.run_tests browser

test-lab: setup ## molecule and lab tests on containers
	@.venv/bin/python -m scripts.run_tests lab

test-upgrade: setup ## the upgrade of Layer2 networks on containers
	@.venv/bin/python -m scripts.run_tests upgrade

test-vm: setup ## boot and converge virtual machines
	@.venv/bin/python -m scripts.run_tests vm

test-uml: setup ## the same on User Mode Linux, which needs no KVM
	@.venv/bin/python -m scripts.run_tests uml

test-fresh: setup ## both commands of the README on a minimal Debian 12 and 13 without anything but make and git
	@.venv/bin/python -m scripts.fresh

test-fresh-quick: setup ## the same on Debian 13 only, with fewer tests and the caches of this machine
	@.venv/bin/python -m scripts.fresh --quick

bench: setup ## figures, as ratios against something measured in the same run (BENCH_SIZES="10 100" is quick)
	@$(LAB) packages && .venv/bin/python -m scripts.ovn_root .venv/bin/python -m tests.bench --sizes $(BENCH_SIZES)

collection: setup ## build the collection, install it from its tarball into an empty directory, and try it there
	@$(PYTEST) tests/standalone/test_tarball.py

docs: ## build the documentation as static HTML in build/docs/html
	@scripts/make_docs

clean: ## remove what make made, except the lab and the image cache
	@for lab in .cache/test-lab-*; do if [ -d "$$lab" ]; then LAB_DIR="$$PWD/$$lab" python3 -m lab down; fi; done
	@rm -rf .venv report build .pytest_cache .ruff_cache .hypothesis .cache .ansible
