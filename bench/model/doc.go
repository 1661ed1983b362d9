// Package model checks a weir.Guard against a model. It runs random histories of
// concurrent calls, with loads that succeed, fail, panic, exit and hang. They must be
// explained by a register that every caller reads and writes one after another
// (porcupine; Herlihy and Wing, "Linearizability", TOPLAS 1990). The package has only
// tests, and its own module keeps porcupine out of the core's module graph.
package model
