package top

import "os"

// notifyResized does nothing: Windows has no signal for it, and each drawing asks for the
// size.
func notifyResized(chan<- os.Signal) {}
