package browser_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/lab/browser"
)

// The site of the documentation works from a folder: the search finds a page and opens it,
// the menu opens on a narrow screen, no page is wider than it, and the browser reports
// nothing.
func TestSiteWorksFromAFolder(t *testing.T) {
	b := chromium(t)
	dir := filepath.Join(t.TempDir(), "site")
	cmd := exec.CommandContext(t.Context(), "go", "run", "./tools/site", "-o", dir)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p, err := b.Open(browser.View{Width: 400, Height: 900})
	must(t, err)
	defer p.Close()
	url := "file://" + filepath.ToSlash(dir)
	for _, name := range []string{"index.html", "docs/lab.html", "docs/explain/gateway.html", "docs/reference/proxy-configuration.html", "docs/adr/index.html"} {
		must(t, p.Goto(url+"/"+name))
		if wide, err := browser.Eval[int](p, `document.documentElement.scrollWidth - innerWidth`); wide > 0 || err != nil {
			t.Errorf("%s is %d px wider than the window: %v", name, wide, err)
		}
	}
	must(t, p.Click("#menu"), p.Until(`getComputedStyle(document.getElementById("nav")).display == "block"`))
	must(t, p.Fill("#search", "stampede grpc"), p.Until(`[...document.querySelectorAll("#results a")].some(a => a.innerText == "A stampede on a gRPC method")`))
	must(t, p.Fill("#search", "nosuchwordanywhere"), p.Until(`document.getElementById("results").innerText.includes("No page contains")`))
	must(t, p.Fill("#search", "payment once"), p.Until(`document.querySelector("#results a")?.innerText == "Run a payment once"`),
		p.Type("\r"), p.Until(`document.title == "Run a payment once · weir"`))
	if said := p.Messages(); len(said) > 0 {
		t.Errorf("the browser's console has %q", said)
	}
}
