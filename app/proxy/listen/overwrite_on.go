//go:build overwrite

package listen

// overwritesHeaders: the map of a response's fields is overwritten once its handler has
// returned, and not used again. A handler that still reads it gets something else, so tests
// can find it. Run them with -tags overwrite.
const overwritesHeaders = true
