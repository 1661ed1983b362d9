package build

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"}
	dirty := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, c := range []struct {
		main     string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", nil, "v1.2.3"},
		{"v1.2.3", []debug.BuildSetting{revision}, "v1.2.3"},
		{"v1.2.3+dirty", []debug.BuildSetting{revision, dirty}, "v1.2.3+dirty"},
		{"(devel)", nil, "devel"},
		{"", nil, "devel"},
		{"", []debug.BuildSetting{revision}, "devel +0123456789ab"},
		{"(devel)", []debug.BuildSetting{revision, dirty}, "devel +0123456789ab.dirty"},
		{"v0.0.0-20261123083000-0123456789ab", []debug.BuildSetting{revision}, "devel +0123456789ab"},
		{"v1.2.4-0.20261123083000-0123456789ab+dirty", []debug.BuildSetting{revision, dirty}, "devel +0123456789ab.dirty"},
		{"v1.3.0-rc.1.0.20261123083000-0123456789ab", []debug.BuildSetting{revision}, "devel +0123456789ab"},
		{"v0.0.0-20261123083000-0123456789ab", nil, "v0.0.0-20261123083000-0123456789ab"}, // from go install …@main
	} {
		b := &debug.BuildInfo{Main: debug.Module{Version: c.main}, Settings: c.settings}
		if got := version(b); got != c.want {
			t.Errorf("version(%q, %v) = %q; want %q", c.main, c.settings, got, c.want)
		}
	}
	if Version() == "" {
		t.Error("Version is empty")
	}
}
