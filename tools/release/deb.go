package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// debs packs the binaries for Linux as Debian packages with the command, the unit and an
// initial configuration. Installing a package enables and starts nothing.
func (r *releaser) debs(ctx context.Context) (string, error) {
	var names []string
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		name := r.debName(p)
		if err := r.deb(ctx, p, filepath.Join(r.files, name)); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "", notRun("no binary for Linux was built")
	}
	return strings.Join(names, " "), nil
}

func (r *releaser) debName(p platform) string { return r.folder(p) + ".deb" }

func (r *releaser) deb(ctx context.Context, p platform, target string) error {
	dir := filepath.Join(r.tmp, "deb-"+p.arch)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unit, err := unitOf(filepath.Join(r.git.dir, "deploy", "systemd", "weir-proxy.service"))
	if err != nil {
		return err
	}
	items, err := r.items(ctx, p)
	if err != nil {
		return err
	}
	// Debian requires the licences in a file of this name.
	var copyright []byte
	for _, i := range items {
		if i.name == "LICENSE" || i.name == "THIRD-PARTY-LICENSES.txt" {
			copyright = append(copyright, i.data...)
		}
	}
	files := map[string][]byte{"weir-proxy.service": unit, "copyright": copyright}
	scripts := []any{}
	for _, s := range shells {
		if i := slices.IndexFunc(items, func(i item) bool { return i.name == s.archive }); i >= 0 && s.deb != "" {
			files[s.name] = items[i].data
			scripts = append(scripts, r.debFile(filepath.Join(dir, s.name), s.deb, 0o644))
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	config, err := json.Marshal(r.debConfig(p, dir, scripts)) // JSON is YAML
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "nfpm.yaml")
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return err
	}
	return r.tool(ctx, nfpm, "package", "--packager", "deb", "--config", file, "--target", target)
}

// unitOf returns the unit with the path of the command in the package.
func unitOf(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	const manual, packaged = "\nExecStart=/usr/local/bin/weir ", "\nExecStart=/usr/bin/weir "
	head, rest, ok := strings.Cut(string(b), manual)
	if !ok {
		return nil, fmt.Errorf("%s has no line %q", name, strings.TrimSpace(manual))
	}
	// Replace the comment above the first section, which is about a manual installation.
	if _, sections, ok := strings.Cut(head, "\n[Unit]"); ok {
		head = "# weir proxy as a service. Before you enable it, write the administrator's token:\n#\n" +
			"#   (umask 077; head -c 24 /dev/urandom | base64 > /etc/weir/admin.token)\n\n[Unit]" + sections
	}
	return []byte(head + packaged + rest), nil
}

// debFile returns one file of a package, for nfpm.
func (r *releaser) debFile(src, dst string, mode os.FileMode) map[string]any {
	return map[string]any{"src": src, "dst": dst, "file_info": map[string]any{
		"mode": mode, "mtime": r.when.Format(time.RFC3339), "owner": "root", "group": "root",
	}}
}

// debConfig returns the configuration for nfpm. scripts are the completions.
func (r *releaser) debConfig(p platform, dir string, scripts []any) map[string]any {
	file := r.debFile
	config := file(filepath.Join(r.git.dir, "deploy", "systemd", "weir.yaml"), "/etc/weir/weir.yaml", 0o644)
	config["type"] = "config|noreplace"
	return map[string]any{
		"name": "weir", "arch": p.arch, "platform": "linux", "version": r.version, "section": "net", "priority": "optional",
		"maintainer":  "The weir authors <https://github.com/weir-go/weir>",
		"description": "gateway that keeps slow HTTP services alive under high load\n It coalesces requests, caches responses and limits concurrency.",
		"homepage":    "https://github.com/weir-go/weir",
		"license":     "Apache-2.0",
		"mtime":       r.when.Format(time.RFC3339),
		"contents": append([]any{
			file(r.binary(p), "/usr/bin/weir", 0o755),
			file(filepath.Join(dir, "weir-proxy.service"), "/usr/lib/systemd/system/weir-proxy.service", 0o644),
			config,
			file(filepath.Join(dir, "copyright"), "/usr/share/doc/weir/copyright", 0o644),
			file(filepath.Join(r.git.dir, "README.md"), "/usr/share/doc/weir/README.md", 0o644),
		}, scripts...),
	}
}
