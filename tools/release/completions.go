package main

import (
	"context"
	"fmt"
	"slices"
)

// A shell is one for which weir writes a completion script.
type shell struct {
	name    string // as in weir completion NAME
	archive string // its file in an archive
	deb     string // its file in a Debian package; "" for none
}

var shells = []shell{
	{"bash", "completions/weir.bash", "/usr/share/bash-completion/completions/weir"},
	{"zsh", "completions/_weir", "/usr/share/zsh/vendor-completions/_weir"},
	{"fish", "completions/weir.fish", "/usr/share/fish/vendor_completions.d/weir.fish"},
	{"powershell", "completions/weir.ps1", ""},
}

// completions returns the completion scripts, by file in the archive. They come from this
// machine's binary, and are the same for every platform. Without such a binary, there are
// none.
func (r *releaser) completions(ctx context.Context) ([]item, error) {
	if !slices.Contains(r.platforms, host) {
		return nil, nil
	}
	var items []item
	for _, s := range shells {
		script, err := output(ctx, r.tmp, nil, r.binary(host), "completion", s.name)
		if err != nil {
			return nil, fmt.Errorf("weir completion %s: %w", s.name, err)
		}
		items = append(items, item{s.archive, 0o644, []byte(script + "\n")})
	}
	return items, nil
}
