// Package once makes sure that a call runs at most once for an Idempotency-Key.
//
// A [Claims] knows, for each key, whether a call was sent and what came of it. It takes a
// claim before the first byte is sent, and keeps the answer, in a [Store]: a [Folder] is
// one for a single process. A call whose outcome was not seen, because the process ended or
// the server broke off, is unknown, and stays so until an operator settles it or it
// expires. Decision 0135 has the states and what is durable in each.
//
// Package weirhttp uses it for HTTP, with Options.Idempotency.
package once
