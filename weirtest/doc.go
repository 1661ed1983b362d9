/*
Package weirtest helps to test code that uses a [weir.Guard]. A [Loader] stands in
for the source and does what the test specifies. A [Recorder] stores what the Guard
reports to its Observer.

	var prices weirtest.Loader[string, int]
	prices.On("tea").Return(3).Fail(errDown) // the first load, then all others
	g, err := weir.New(prices.Load, weir.Options{TTL: time.Minute})

# Holding a load

Most interesting cases happen while a load is in flight. Block holds loads, and
Started waits until one has begun and returns its [Call]. The Call lets the load
continue, or sets its result or error:

	prices.Block("tea")
	go g.Get(ctx, "tea")
	load := prices.Started(t, "tea")
	g.Invalidate(ctx, "tea") // wins over the load
	load.Return(3)

Nothing here sleeps or polls.

# Time

Test times (TTL, stale windows, timeouts) in a bubble of package testing/synctest,
where a time.Sleep of an hour takes no real time and is exact. Create the Guard
inside the bubble. A Loader and a Recorder work inside and outside of a bubble, but
use each Loader in only one.

Background loads continue after the Get that started them, and an Observer learns of
a load's end shortly after its callers. In a bubble, synctest.Wait waits for both.
*/
package weirtest
