// Package rig has what the contract's tests of a Guard share: stories and scenes in a bubble,
// scripted sources, fleets of several instances, and an Observer that records. Only tests
// import it.
//
// Each test binary that imports it takes -fleet, which gives the Guards of stories a fleet of
// one instance each.
package rig
