package weir

// stackOfLoad is how many bytes of stack a load uses at least: the run, its end and the
// store's Set. A new goroutine has 2 KiB, unless the runtime has learned better.
const stackOfLoad = 5 << 10

// growStack makes the goroutine's stack large enough for stackOfLoad bytes at once, while
// there is little on it to copy. Otherwise it would double twice, deep in the load. Nothing
// is allocated or cleared: only the size of growStack's frame matters, and used is false.
//
//go:noinline
func growStack(used bool) byte {
	if !used {
		return 0
	}
	var frame [stackOfLoad]byte
	for i := range frame {
		frame[i] = byte(i)
	}
	return frame[len(frame)/2]
}
