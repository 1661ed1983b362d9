// Package promises shows which library keeps which promise: small stories, told
// to weir and to the libraries that people wire together today, and a table of
// what each did.
//
//	go test -run TestPromises -v .         # prints the table
//	go run ../cmd/weir-bench promises      # writes ../results/promises.md
//
// A story that goes wrong may kill its process or never end, so each runs in
// a separate process: the test starts itself again for every cell. Almost all
// run in a testing/synctest bubble, where time is exact and costs nothing.
//
// The test fails if weir breaks a promise. What the peers do is printed, and
// compared with what is on record: a peer that gets better is good news.
package promises
