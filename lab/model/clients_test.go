package model_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/model"
)

// The versions of OpenAI's libraries, from PyPI and npm.
const (
	openaiPython = "openai==3.57.0"
	openaiNode   = "openai@6.49.0"
)

// The official client libraries get the same through weir as from the server, byte for
// byte, in streams (H33) and as one document, for a miss, a hit and two requests at once.
// weir has the configuration of the how-to.
//
// The libraries come from the package registries, so the test runs only where
// lab/cmd/with provides pip and npm, as in make test: go run ./lab/cmd/with pip node npm --
// go test ./lab/model.
func TestH32_OfficialClients(t *testing.T) {
	t.Run("Python", func(t *testing.T) {
		needs(t, "pip")
		folder := t.TempDir()
		program := filepath.Join(folder, "bin", "python")
		install(t, folder, "python3", "-m", "venv", "--without-pip", folder)
		install(t, folder, "python3", "-m", "pip", "--python", program, "--disable-pip-version-check", "install", "--quiet", openaiPython)
		officialClient(t, program, script(t, "client.py"), folder)
	})
	t.Run("Node", func(t *testing.T) {
		needs(t, "node", "npm")
		folder := t.TempDir()
		install(t, folder, os.Getenv(engine.Env("npm")), "install", "--no-audit", "--no-fund", "--loglevel=error", openaiNode)
		officialClient(t, os.Getenv(engine.Env("node")), script(t, "client.mjs"), folder)
	})
}

// needs skips the test unless lab/cmd/with provides these programs, which reports those
// that it leaves out.
func needs(t *testing.T, names ...string) {
	t.Helper()
	without := strings.Split(os.Getenv("WEIR_TEST_WITHOUT"), ",")
	for _, name := range names {
		if os.Getenv(engine.Env(name)) != "" {
			continue
		}
		if os.Getenv("WEIR_TEST_ENGINES") == "required" && !slices.Contains(without, name) {
			t.Fatalf("lab/cmd/with does not provide %s: add it to its arguments", name)
		}
		t.Skipf("WITHOUT %s: it comes from go run ./lab/cmd/with pip node npm -- go test ./lab/model", name)
	}
}

// script is the absolute path of a file in testdata.
func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// patience is how long a program may take before the test fails.
const patience = 3 * time.Minute

// output runs a program in a folder and returns what it prints.
func output(t *testing.T, folder, name string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	// Nothing that is installed elsewhere for Python or Node takes part.
	cmd.Env = append(os.Environ(), "PYTHONPATH=", "NODE_PATH=", "OPENAI_LOG=")
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	err = cmd.Run()
	return out.String(), log.String(), err
}

// install runs a step of an installation.
func install(t *testing.T, folder, name string, args ...string) {
	t.Helper()
	if out, log, err := output(t, folder, name, args...); err != nil {
		t.Fatalf("this test needs OpenAI's client library from the package registry, and could not install it: %s %s: %v\n%s%s",
			name, strings.Join(args, " "), err, out, log)
	}
}

// officialClient compares what a client prints with and without weir. The client makes
// three different requests: a document, a stream, and a stream with its usage.
func officialClient(t *testing.T, program, script, folder string) {
	origin, usage, front := modelAndWeir(t)
	ask := func(url, prompt string) string {
		out, log, err := output(t, folder, program, script, url, prompt)
		if err != nil {
			t.Errorf("%s %s: %v\n%s%s", program, script, err, out, log)
		}
		return out
	}
	const one, other = "What turns the wheel?", "What turns the wheel at night – the moon?"
	direct, second := ask(origin, one), ask(origin, other)
	if strings.Count(direct, "[DONE]") != 1 || strings.Count(direct, "\n") < 20 || direct == second {
		t.Fatalf("without weir it printed\n%s\nand for another prompt\n%s", direct, second)
	}
	before := usage().Completions
	for _, what := range []string{"a miss", "a hit"} {
		if got := ask(front, one); got != direct {
			t.Errorf("%s: through weir\n%s\nwithout it\n%s", what, got, direct)
		}
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if got := ask(front, other); got != second {
				t.Errorf("two at once: through weir\n%s\nwithout it\n%s", got, second)
			}
		})
	}
	both.Wait()
	if n := usage().Completions - before; n != 6 {
		t.Errorf("%d completions for four runs with two prompts through weir; want 6, a document and two streams for each prompt", n)
	}
}

// modelAndWeir starts a model, and weir in front of it with the configuration of the
// how-to.
func modelAndWeir(t *testing.T) (origin string, usage func() model.Usage, front string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "howto", "model-api.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "```yaml\n# weir.yaml\n")
	text, _, closed := strings.Cut(text, "```")
	const server = "http://127.0.0.1:8000"
	if !found || !closed || !strings.Contains(text, server) {
		t.Fatalf("model-api.md has no configuration for a server at %s", server)
	}
	s := model.New(model.Options{First: 20 * time.Millisecond, Token: time.Millisecond, Slots: 8}, nil)
	behind := httptest.NewServer(s)
	t.Cleanup(behind.Close)
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(text, server, behind.URL, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	settings, err := c.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	before := httptest.NewServer(g)
	t.Cleanup(func() {
		before.Close()
		if err := g.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return behind.URL, s.Usage, before.URL
}
