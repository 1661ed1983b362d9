// Package chain calls several observers as one. Each is called regardless of the
// others: a panic of one is re-raised after all have been called, and
// runtime.Goexit ends the goroutine only then.
package chain

import "context"

// Links holds the contexts that the observers of a chain returned at a start, for
// their later calls. It is the value of a key in the context that Start returns.
type Links struct {
	each     []context.Context
	panicked bool
	fault    any // with panicked: the first panic value
}

// A key identifies the chain of an observer, so that nested chains are kept
// apart.
type key struct{ of any }

// Start calls start for each of n observers in order, each with the context that
// the previous one returned. A panic is kept for End, because re-raising it here
// would lose the contexts of the other observers.
func Start(ctx context.Context, of any, n int, start func(i int, ctx context.Context) context.Context) context.Context {
	l := &Links{each: make([]context.Context, n)}
	l.start(0, ctx, start)
	if n > 0 {
		ctx = l.each[n-1]
	}
	return context.WithValue(ctx, key{of}, l)
}

func (l *Links) start(i int, ctx context.Context, start func(i int, ctx context.Context) context.Context) {
	if i == len(l.each) {
		return
	}
	l.each[i] = ctx
	returned := false
	defer func() {
		if v := recover(); !returned && v != nil && !l.panicked {
			l.panicked, l.fault = true, v
		}
		l.start(i+1, l.each[i], start)
	}()
	if own := start(i, ctx); own != nil {
		l.each[i] = own
	}
	returned = true
}

// End calls end for each of n observers, in reverse order, each with its own
// context from the Start that ctx comes from, without its cancellation.
func End(ctx context.Context, of any, n int, end func(i int, ctx context.Context)) {
	l, _ := ctx.Value(key{of}).(*Links)
	defer func() {
		if l != nil && l.panicked {
			panic(l.fault)
		}
	}()
	Each(n, func(i int) {
		i = n - 1 - i
		end(i, Own(ctx, of, i))
	})
}

// Own returns the context of the ith observer in the Start that ctx comes from,
// without its cancellation. If there was no Start, it returns ctx.
func Own(ctx context.Context, of any, i int) context.Context {
	if ctx == nil {
		return nil
	}
	if l, ok := ctx.Value(key{of}).(*Links); ok {
		return context.WithoutCancel(l.each[i])
	}
	return ctx
}

// Each calls call with 0 to n-1, in order.
func Each(n int, call func(i int)) { each(0, n, call) }

func each(i, n int, call func(i int)) {
	if i == n {
		return
	}
	defer each(i+1, n, call)
	call(i)
}
