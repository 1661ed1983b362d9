module github.com/weir-go/weir/bench/promises

go 1.25.0
