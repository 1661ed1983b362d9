package engine

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// registryTimeout bounds one question to a package registry.
const registryTimeout = 30 * time.Second

// questions are what the package managers ask their registries to see whether these
// respond: the versions of themselves.
var questions = map[string][]string{
	"npm": {"view", "npm", "version"},
	"pip": {"-qq", "index", "versions", "pip"},
}

// Registry returns nil if the package manager called name, which is installed, can
// reach its registry, and for any other engine or tool.
func Registry(ctx context.Context, name string) error {
	question, ok := questions[name]
	if !ok {
		return nil
	}
	file, err := Path(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, file, question...).CombinedOutput(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("engine: %s cannot reach its package registry: %w: %s", name, err, line)
	}
	return nil
}
