// Package fleets has tests of the contract of several Guards that share a Tier (T).
package fleets
