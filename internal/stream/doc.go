// Package stream is the body of one response while it is in flight: one writer
// appends, and any number of readers follow, each with a cursor of its own
// (H4). What has been written is kept from the first byte, so that who comes
// late reads all of it, up to a limit; past that a window slides over it.
package stream
