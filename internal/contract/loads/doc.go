// Package loads has tests of the contract of a Guard: how loads are admitted, bounded and
// ended, and what failing callbacks do (B, F6, E9).
package loads
