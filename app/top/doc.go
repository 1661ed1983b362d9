// Package top is weir top: the overview of the console in a terminal. It reads the event
// stream of the console at an admin listener, so both show the same numbers, as the same
// means over the same ten seconds.
package top
