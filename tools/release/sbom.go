package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// The tools run at a fixed version outside of our modules, so that their requirements do
// not raise those of our modules.
const (
	cyclonedx = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0"
	nfpm      = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"
)

// tool installs one of these tools with the machine's caches, and runs it. If the tool
// cannot be installed, the short form only reports that: make test must not fail because
// a proxy lacks a tool.
func (r *releaser) tool(ctx context.Context, name string, args ...string) error {
	bin := filepath.Join(r.tmp, "tools")
	if _, err := output(ctx, r.tmp, []string{"GOWORK=off", "GOFLAGS=", "GOBIN=" + bin}, "go", "install", name); err != nil {
		if r.short && ctx.Err() == nil {
			return notRun("without " + name + ", which cannot be installed here: " + strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		return err
	}
	path, _, _ := strings.Cut(name, "@")
	program := filepath.Join(bin, filepath.Base(path))
	_, err := output(ctx, r.tmp, []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.when.Unix())}, program, args...)
	return err
}

// timestamp matches the only part of an SBOM that depends on when it was generated.
var timestamp = regexp.MustCompile(`("timestamp": ")[^"]*"`)

// describe writes an SBOM for each binary, and compares it with the build information in
// the binary.
func (r *releaser) describe(ctx context.Context) (string, error) {
	components := 0
	for _, p := range r.platforms {
		name := filepath.Join(r.files, r.folder(p)+".cdx.json")
		if err := r.tool(ctx, cyclonedx, "bin", "-json", "-std", "-noserial", "-version", r.version, "-output", name, r.binary(p)); err != nil {
			return "", err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		b = timestamp.ReplaceAll(b, []byte("${1}"+r.when.Format(time.RFC3339)+`"`))
		if err := os.WriteFile(name, b, 0o644); err != nil {
			return "", err
		}
		n, err := checkSBOM(b, r.binary(p), r.version)
		if err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		components = max(components, n)
	}
	tool, version, _ := strings.Cut(cyclonedx, "@")
	return fmt.Sprintf("%d, CycloneDX JSON by %s %s, up to %d components", len(r.platforms), filepath.Base(tool), version, components), nil
}

// checkSBOM compares an SBOM with the modules in a binary, and returns how many
// components it has.
func checkSBOM(sbom []byte, binary, version string) (int, error) {
	var doc struct {
		BOMFormat string `json:"bomFormat"`
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(sbom, &doc); err != nil {
		return 0, err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return 0, err
	}
	if main := doc.Metadata.Component; doc.BOMFormat != "CycloneDX" || main.Name != info.Main.Path || main.Version != version {
		return 0, fmt.Errorf("the SBOM has format %q and is for %s %s; want CycloneDX for %s %s", doc.BOMFormat, main.Name, main.Version, info.Main.Path, version)
	}
	listed := map[string]bool{}
	for _, c := range doc.Components {
		listed[c.Name+" "+c.Version] = true
	}
	for _, d := range info.Deps {
		if !listed[d.Path+" "+d.Version] {
			return 0, fmt.Errorf("the SBOM lacks %s %s", d.Path, d.Version)
		}
	}
	return len(doc.Components), nil
}
