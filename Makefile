# Thin on purpose: everything with logic is Go code in tools/ and lab/.

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

demo: ## see it work, with nothing else installed; ARGS=--keep keeps its console
	@echo "building the demo; the first time, this takes about a minute" >&2
	@go run ./app/cmd/weir-demo $(ARGS)

quick: ## what your changes touch, in two minutes; ARGS=COMMIT compares with another commit
	go run ./tools/gate quick $(ARGS)

core: ## the core alone, in a minute
	GOWORK=off go vet ./...
	GOWORK=off go test -vet=off ./...

one: ## the tests of one package, with the engines it needs: make one P=./app/proxy ARGS='-run TestH17'
	go run ./tools/gate one $(P) $(ARGS)

test: ## everything a change must pass, with the engines it needs, in twenty minutes
	go run ./tools/gate test

full: ## test, and what runs nightly: all random histories, the race detector everywhere, fuzzing
	go run ./tools/gate full

race: ## every module's tests under the race detector
	go run ./tools/gate race

fuzz: ## run every fuzz target for a while
	go run ./tools/gate fuzz

lab: ## every pattern before and after, with real engines, in three quarters of an hour
	go run ./lab run all --install

docs: ## the documentation as a site with search, in the folder site
	go run ./tools/site -o site

bench: ## micro-benchmarks, then side by side with the peers
	go test -run '^$$' -bench . ./...
	go run ./bench/cmd/weir-bench

.PHONY: help demo quick core one test full race fuzz lab docs bench
