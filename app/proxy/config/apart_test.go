package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Listeners that cannot all be opened are found before the start, however their addresses
// are written.
func TestH4_ListenersMustNotOverlap(t *testing.T) {
	folder(t)
	for _, tt := range []struct {
		listen, admin, jobs string
		want                string // the fields with faults
	}{
		{"a:1, b:1", "127.0.0.1:2", "127.0.0.1:3", ""},
		{"127.0.0.1:1, 127.0.0.2:1, 127.0.0.1:2", "none", "", ""},
		{"127.0.0.1:0, 127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", ""},
		{"127.0.0.1:1, 127.0.0.1:1", "none", "", "listen[1].address"},
		{":1, 0.0.0.0:1, [::]:1, 127.0.0.1:1, localhost:1", "none", "", "listen[1].address listen[2].address listen[3].address listen[4].address"},
		{"127.0.0.1:1, :1", "none", "", "listen[1].address"},
		{"127.0.0.1:1, localhost:1", "none", "", "listen[1].address"},
		{"[::1]:1, LOCALHOST:1", "none", "", "listen[1].address"},
		{"127.0.0.1:1, [::ffff:127.0.0.1]:1", "none", "", "listen[1].address"},
		{"[::1]:1, [0:0:0:0:0:0:0:1]:1", "none", "", "listen[1].address"},
		{"shop.example:1, Shop.Example:1", "none", "", "listen[1].address"},
		{":1", "127.0.0.1:1", "", "admin.address"},
		{"127.0.0.1:1", "localhost:1", "", "admin.address"},
		{":1", "127.0.0.1:2", "127.0.0.1:1", "jobs.listen"},
		{":1", "127.0.0.1:2", "localhost:2", "jobs.listen"},
		{"", "127.0.0.1:8080", "", "admin.address"},
		{"x", "127.0.0.1:8080", "", "listen[0].address"},
	} {
		text := one + "routes: [{name: a, async: {}}]\n"
		if tt.listen != "" {
			text += "listen: [{address: \"" + strings.ReplaceAll(tt.listen, ", ", "\"}, {address: \"") + "\"}]\n"
		}
		text += fmt.Sprintf("admin: {address: %q}\njobs: {dir: jobs", tt.admin)
		if tt.jobs != "" {
			text += fmt.Sprintf(", listen: %q", tt.jobs)
		}
		_, faults := load(t, text+"}\n")
		var fields []string
		for _, f := range faults {
			fields = append(fields, f.Field)
		}
		if got := strings.Join(fields, " "); got != tt.want {
			t.Errorf("listen %s, admin %s, jobs %s: faults\n%s\nwant those of %q", tt.listen, tt.admin, tt.jobs, faults.Text(), tt.want)
		}
	}
}

// The cache and the jobs keep out of each other's folders.
func TestH4_FoldersAreApart(t *testing.T) {
	folder(t)
	if err := os.Mkdir("real", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", "link"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ cache, jobs, want string }{
		{"a", "b", ""}, {"a", "ab", ""}, {"a/b", "a/c", ""}, {"a", "..b", ""}, {"a..", "a", ""},
		{"a", "a", "is jobs.dir too"}, {"a", "./x/../a/", "is jobs.dir too"},
		{"a/b", "a", "is in jobs.dir"}, {"a", "a/b/c", "contains jobs.dir"},
		{"link", "real", "is jobs.dir too"}, {"link/x", "real", "is in jobs.dir"},
	} {
		_, faults := load(t, fmt.Sprintf(one+"routes: [{name: a, async: {}}]\ncache: {dir: %q}\njobs: {dir: %q}\n", tt.cache, tt.jobs))
		if got := faults.Error(); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) || tt.want != "" && faults[0].Field != "cache.dir" {
			t.Errorf("cache in %s, jobs in %s: faults %v; want %q", tt.cache, tt.jobs, faults, tt.want)
		}
	}
}
