// Package model checks a weir.Guard against a model: random histories of
// concurrent calls, with loads that succeed, fail, panic, exit and hang, must
// be explained by a register that every caller reads and writes one after
// another (porcupine; Herlihy and Wing, "Linearizability", TOPLAS 1990). It
// has nothing but tests, and a module of its own keeps porcupine out of the
// core's graph.
package model
