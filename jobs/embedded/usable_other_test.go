//go:build !unix

package embedded_test

// tryDir is set by no test here: those that start the test binary with it change modes,
// owners and limits as a unix system has them.
const tryDir = "WEIR_EMBEDDED_TRY"

func try(string) int { panic("only on a unix system") }
