# Everything a newcomer needs: `make demo` and `make test`.
GO      ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: demo test lint bench long reproduce deps vectors agent-image engine packages image

# The main job, with Go alone, as an ordinary user.
demo:
	@CGO_ENABLED=0 $(GO) run ./cmd/assay-demo

# Every test. Installs what is missing where it may, else names it.
test: deps
	$(GO) test -timeout 8m ./...

# Services and tools that tests use: installed by root on Debian, else named.
deps:
	@scripts/deps

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'lint: gofmt -w the files above'; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

# Figures beside the bare primitive in the same run. Ratios are printed, never gated.
bench:
	$(GO) test -run '^$$' -bench . -benchtime 2s -timeout 20m ./...

# The same tests at scale, and every fuzzer for a minute.
long: deps
	ASSAY_LONG=1 $(GO) test -count 1 -timeout 60m ./...
	scripts/fuzz 60s

# Two builds in two places, byte for byte.
reproduce:
	@scripts/reproduce

# What operators install (docs/packages.md): .deb and .rpm, and a container image: make packages image [OUT=DIR] [VERSION=1.2.3].
packages image:
	@VERSION='$(VERSION)' scripts/release '$(or $(OUT),build/release)' $@

# The rules of this tree as a WASI module, for assay serve --engine: make engine [OUT=FILE] [VERSION=NAME].
engine:
	@mkdir -p build
	@VERSION='$(VERSION)' scripts/engine '$(or $(OUT),build/engine.wasm)'
	@$(GO) run ./cmd/assay engine '$(or $(OUT),build/engine.wasm)'

# Writes testvectors/ anew; a rerun changes no byte.
vectors:
	$(GO) run ./cmd/genvectors testvectors

# The guest whose only program is the agent, and what it measures to: make agent-image OVMF=FILE [PINS=FILE] [OUT=DIR].
agent-image:
	@OVMF='$(OVMF)' OUT='$(OUT)' PINS='$(PINS)' CA='$(CA)' KERNEL='$(KERNEL)' MODULES='$(MODULES)' \
		VCPUS='$(VCPUS)' VCPU_TYPE='$(VCPU_TYPE)' CMDLINE='$(CMDLINE)' scripts/agent-image
