/*
Package weirtest helps to test code that uses a [weir.Guard]: a [Loader] stands
in for the source and does what the test tells it to, and a [Recorder] keeps
what the Guard reports to its Observer.

	var prices weirtest.Loader[string, int]
	prices.On("tea").Return(3).Fail(errDown) // the first load, then all others
	g, err := weir.New(prices.Load, weir.Options{TTL: time.Minute})

# Holding a load

Most of what is worth a test happens while a load is in flight. Block holds
loads, Started waits until one has begun, and the [Call] that it returns lets
that load go on, answers it, or makes it fail:

	prices.Block("tea")
	go g.Get(ctx, "tea")
	load := prices.Started(t, "tea")
	g.Invalidate(ctx, "tea") // beats the load
	load.Return(3)

Nothing here sleeps or polls.

# Time

Tests of instants (TTL, stale windows, timeouts) belong in a bubble of package
testing/synctest, where a time.Sleep of an hour costs nothing and is exact. Make
the Guard inside the bubble. A Loader and a Recorder work inside one and
outside; one Loader is for one bubble.

Background loads go on after the Get that started them, and an Observer hears of
a load's end a moment after its callers. In a bubble synctest.Wait waits for
both.
*/
package weirtest
