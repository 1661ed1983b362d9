// Package inspect has the types in which Guards, HTTP handlers and gateways report their
// state while they run: flights, entries in memory, durations, and hot keys. The types do
// not depend on the types of keys and values. Consoles and metrics collectors use them.
package inspect
