// Package soak runs three gateways for a long time under mixed load, injects faults
// into their environment, and judges every response.
//
// Three `weir proxy` processes share Redis, each over a link that can be cut or
// delayed. Jobs are kept on each gateway's own disk, or by a NATS cluster of three.
// Clients send hits, cold keys, event streams, uploads, authorized pages, ranges,
// slow bodies and asynchronous jobs; others change the source and purge by URL and by
// tag. A seed determines the faults and their times.
//
// # Checks
//
//   - Every body names its owner and its version, and the rest is computed from
//     both. A body is wrong if it is not the requested one, is mixed from several,
//     or is truncated without an error.
//   - A purged version is served for at most memory_cap after the purge was
//     acknowledged; the gateway that took the purge never serves it again. If a
//     gateway was cut off at that time, or the engine lost history, the bound for
//     purges by others is the response's freshness.
//   - An accepted job ends, with its own result. Its work is done once, unless a
//     fault intervened; work that must not be repeated is begun only once.
//   - An error counts unless a fault explains it: one that affects this gateway and
//     this kind of request at that time.
//   - Memory, goroutines and file descriptors of the first gateway, which is
//     stopped and cut off but never killed, do not rise over the last two thirds.
package soak
