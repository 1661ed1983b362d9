// Package inspect has the types in which Guards, HTTP handlers and gateways report their
// state while they run, independent of the types of their keys and values: running
// flights, entries in memory, durations, and hot keys. Consoles and metrics collectors
// use it.
package inspect
