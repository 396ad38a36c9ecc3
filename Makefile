# Commands for everyone: `make demo` shows Combray at work, `make test` runs what CI runs.
# Both install first what the machine lacks (scripts/setup.sh).

PREFIX ?= $(CURDIR)/build/prefix
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: help demo check test test-all build install packages bench clean

help:
	@echo 'make demo                 set up, build, run a C and a Python program on several processes'
	@echo 'make check                a quick build and the tests that find most, in minutes'
	@echo 'make test                 set up, build, run the tests (this is what CI does)'
	@echo 'make test-all             all tests, with what takes long (every night)'
	@echo 'make build                build the release library and install it to build/prefix'
	@echo 'make install PREFIX=DIR   the same, installed to DIR (which can be moved afterwards)'
	@echo 'make packages             a wheel for pip and a package for Debian, into build/packages'
	@echo 'make bench                compare with MPICH, Open MPI and Intel MPI (installs them aside)'
	@echo 'make clean                remove what was built'

demo:
	@scripts/setup.sh demo
	@$(MAKE) --no-print-directory build
	@scripts/demo.sh

check:
	@scripts/setup.sh demo
	@tests/suite check

test:
	@scripts/setup.sh test
	@tests/suite test

test-all:
	@scripts/setup.sh all
	@tests/suite all

build:
	@scripts/setup.sh build
	@scripts/install.sh '$(CURDIR)/build/prefix'

install:
	@scripts/setup.sh build
	@scripts/install.sh '$(PREFIX)'

packages:
	@scripts/setup.sh packages
	@$(MAKE) --no-print-directory build
	@packaging/build wheel deb

bench: build
	bench/compare --prefix '$(CURDIR)/build/prefix'

clean:
	rm -rf build target
