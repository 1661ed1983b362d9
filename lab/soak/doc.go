// Package soak runs three gateways for a long time under mixed load, breaks what
// they stand on, and judges every response.
//
// Three `weir proxy` processes share Redis, each over a link that can be cut or
// delayed. Jobs are kept on each gateway's own disk, or by a NATS cluster of three.
// Clients send hits, cold keys, event streams, uploads, authorised pages, ranges,
// slow bodies and asynchronous jobs; others change the source and purge by URL and
// by tag. A seed decides which faults come when.
//
// # What is judged
//
//   - Every body names its owner and its version, and what follows is computed from
//     both. A body that is not the requested one, mixed, or truncated without an
//     error, is wrong.
//   - A version that was purged is given no longer than memory_cap after the purge
//     was acknowledged; by the gateway that took the purge never again. Where a
//     gateway was cut off meanwhile, or the engine lost history, the bound for what
//     others purged is the response's freshness.
//   - A job that was accepted ends, with its own result. Its work is done once,
//     unless a fault came between; work that must not be repeated is begun once.
//   - An error is explained by a fault that concerns this gateway and this kind of
//     request at that time, or it counts.
//   - Memory, goroutines and file descriptors of the first gateway, which is
//     stopped and cut off but never killed, do not rise over the last two thirds.
package soak
