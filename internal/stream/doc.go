// Package stream implements the body of a response in flight: one writer appends,
// and any number of readers follow, each with its own cursor (H4). Up to a limit,
// everything written is kept from the first byte, so a late reader gets all of
// it. Past the limit, a window slides over the body.
package stream
