// Package libraries shows which library keeps which promise. It runs package promises
// with weir, and with the libraries that people combine today.
//
//	go test -run TestPromises -v .         # prints the table
//	go run ../cmd/weir-bench promises      # writes ../results/promises.md
package libraries
