// Package build reports what the program was built from.
package build

import (
	"regexp"
	"runtime/debug"
	"sync"
)

// devel is the version of a build that is not known to be a release.
const devel = "devel"

// Version returns the version of the program's module. A build from a checkout is
// "devel" with the revision that it was built from ("devel +0123456789ab", with
// ".dirty" if the tree had changes), unless the revision has a version. It is never
// empty, and it is the only source of the version for --version, logs, metrics, the
// console and the fleet.
var Version = sync.OnceValue(func() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return devel
	}
	return version(b)
})

// pseudo matches the version that the go command generates for a revision without
// one.
var pseudo = regexp.MustCompile(`[.-]\d{14}-[0-9a-f]{12}(\+|$)`)

func version(b *debug.BuildInfo) string {
	var revision, dirty string
	for _, s := range b.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = " +" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ".dirty"
		}
	}
	v := b.Main.Version
	switch {
	case v != "" && v != "(devel)" && !(revision != "" && pseudo.MatchString(v)):
		return v
	case revision == "":
		return devel
	}
	return devel + revision + dirty
}
