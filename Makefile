# Thin on purpose: everything with logic is Go code in tools/ and lab/.

# Optional engines are started if they are available, and otherwise reported as missing.
ENGINES = --optional valkey,promtool,chromium,node,npm,pgbouncer,pip postgres cassandra redis nginx varnish caddy ab wrk hey h2load

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

demo: ## see it work, with nothing else installed; ARGS=--keep keeps its console
	go run ./app/cmd/weir demo $(ARGS)

test: ## everything: all gates, all tests, with the engines they need
	go run ./tools/gate check
	go run ./lab/cmd/with --install $(ENGINES) -- go run ./tools/gate tests

core: ## the core alone, in seconds
	GOWORK=off go vet ./...
	GOWORK=off go test ./...

race: ## every module's tests under the race detector
	go run ./lab/cmd/with --install $(ENGINES) -- go run ./tools/gate race

fuzz: ## run every fuzz target for a while
	go run ./tools/gate fuzz

lab: ## every pattern before and after, with real engines, in three quarters of an hour
	go run ./lab run all --install

bench: ## micro-benchmarks, then side by side with the peers
	go test -run '^$$' -bench . ./...
	go run ./bench/cmd/weir-bench

.PHONY: help demo test core race fuzz lab bench
