// Package flights has tests of the contract of a Guard: how callers share a load, and what
// becomes of it when they leave (F).
package flights
