// Package repo has the rules of the repository, as tests that read its files: what may
// import what, how code, comments and pages are written, and which pages have to be
// complete. It has no other code.
//
//	go test ./tools/repo            check them
//	go test ./tools/repo -update    also write the pages and counts that are generated
package repo
