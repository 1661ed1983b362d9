// Package inspect has what Guards, HTTP handlers and gateways tell about
// themselves while they run, in types that do not depend on those of their keys
// and values: the flights in flight, what the memory holds, how long things
// took, and which keys are hot. Consoles and collectors of metrics use it.
package inspect
