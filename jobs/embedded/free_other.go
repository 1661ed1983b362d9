//go:build !linux && !darwin

package embedded

// freeBytes is unknown on this system, so Options.MinFree has no effect.
func freeBytes(string) (free int64, known bool) { return 0, false }
