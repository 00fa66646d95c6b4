# Every target but test-node, test-browser, screenshots, rules and bench-peers runs from a clean checkout with Go and a
# C compiler (for the race detector). `make test` is what CI runs.

GO ?= go
FUZZTIME ?= 5m

SOAKTIME ?= 30m
SOAKOUT ?= soak-out

.PHONY: build test test-node test-browser screenshots rules demo soak soak-long bench fuzz lint bench-peers

build: ## the tollgate binary in bin/
	$(GO) build -trimpath -o bin/tollgate ./cmd/tollgate

# Packages whose tests measure real time have the machine for themselves. Those that play
# thousands of faults or hours in virtual time run without the race detector: internal/e2e runs the
# same dispatcher with it.
ALONE = tollgate/(client|consumer|deploy|examples|tools|internal/(app|badinput|bench|contract|demo|embedded|owner|soak|web))(/|$$)
PLAYED = tollgate/internal/(matrix|model|verify)$$

test: ## everything, with the race detector
	$(GO) test -race -p 3 -timeout 15m $$($(GO) list ./... | grep -vE '$(ALONE)|$(PLAYED)')
	$(GO) test -p 3 -timeout 15m $$($(GO) list ./... | grep -E '$(PLAYED)')
	$(GO) test -race -p 1 -timeout 15m $$($(GO) list ./... | grep -E '$(ALONE)')
	cd bench && $(GO) test -race ./...

test-browser: ## the console in a real browser; needs Debian's packages chromium and fonts-dejavu-core, and npm
	browser/axe.sh
	cd browser && $(GO) vet ./... && $(GO) test -count 1 -timeout 6m ./...

screenshots: ## a picture of every page of the console, in dist/screenshots; needs chromium
	cd browser && $(GO) run ./screenshots

test-node: ## the agent in Node; needs npm
	$(GO) test -tags node -count 1 -run Node ./examples

rules: ## the alerts: their form, and a case in which each fires; needs Debian's prometheus package
	promtool check rules deploy/prometheus/alerts.yml
	promtool test rules deploy/prometheus/alerts_test.yml

demo: ## every way a call can end, a replay, and verify at the end
	$(GO) run ./cmd/tollgate demo

soak: ## the real program killed 30 times in 3,000 calls; the full crash matrix; 10,000 random sequences against the model
	$(GO) test -tags soak -run Soak -count 1 -timeout 60m ./internal/soak/...
	$(GO) test -tags soak -c -o bin/matrix.test ./internal/matrix
	bin/matrix.test -test.run SoakMatrix -test.timeout 120m
	$(GO) test -tags soak -run I1ToI14 -count 1 -timeout 120m ./internal/model/...

soak-long: ## mixed load for SOAKTIME under kills, restarts and full disks; needs unshare
	$(GO) run ./internal/soak/long -for $(SOAKTIME) -out $(SOAKOUT)

bench: ## what a call costs against bare JetStream; numbers of this machine only
	$(GO) run ./cmd/tollgate bench --json

bench-peers: ## beside asynq on Redis and River on PostgreSQL; installs Debian's packages of both
	bench/run.sh

fuzz: ## each fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
		targets=$$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); \
		for target in $$targets; do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

lint: ## what CI checks before the tests
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w these files:" >&2; echo "$$unformatted" >&2; exit 1; fi
	$(GO) vet ./...
	$(GO) tool -modfile=.ci/tools.mod staticcheck ./...
	cd bench && $(GO) vet ./... && $(GO) tool -modfile=../.ci/tools.mod staticcheck ./...
	cd browser && $(GO) vet ./... && $(GO) tool -modfile=../.ci/tools.mod staticcheck ./...
