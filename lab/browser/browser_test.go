package browser_test

import (
	"bytes"
	"errors"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/lab/browser"
	"github.com/weir-go/weir/lab/engine"
)

// chromium starts the browser, or skips the test with the reason.
func chromium(t *testing.T) *browser.Browser {
	t.Helper()
	b, err := browser.Start(t.Context())
	if missing := (*engine.MissingError)(nil); errors.As(err, &missing) && !required() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// required reports whether there must be a Chromium.
func required() bool {
	return os.Getenv("WEIR_TEST_ENGINES") == "required" && !slices.Contains(strings.Split(os.Getenv("WEIR_TEST_WITHOUT"), ","), "chromium")
}

const testPage = `<!doctype html><title>t</title><style>body{background:#fff}
@media (prefers-color-scheme: dark) { body{background:#000} }</style>
<input id=a><button id=b>go</button>
<script>
document.getElementById("b").onclick = () => { document.title = document.getElementById("a").value; console.warn("clicked", 1) };
</script>`

func TestPage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte(testPage))
	}))
	defer server.Close()
	b := chromium(t)
	p, err := b.Open(browser.View{Width: 500, Height: 300, Dark: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, step := range []error{p.Goto(server.URL), p.Fill("#a", "typed"), p.Click("#b"), p.Until(`document.title == "typed"`)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	if dark, err := browser.Eval[bool](p, `matchMedia("(prefers-color-scheme: dark)").matches && innerWidth == 500`); !dark || err != nil {
		t.Errorf("dark and 500 wide = %v, %v; want true", dark, err)
	}
	if m := p.Messages(); len(m) != 1 || !strings.Contains(m[0], "clicked") {
		t.Errorf("Messages = %q; want the warning", m)
	}
	if _, err := browser.Eval[int](p, `fetch("http://elsewhere.example/").then(() => 1, () => 2)`); err != nil {
		t.Error(err)
	}
	if asked := p.Asked(); !slices.ContainsFunc(asked, func(url string) bool { return strings.Contains(url, "elsewhere.example") }) {
		t.Errorf("Asked = %q; want the unreachable URL", asked)
	}
	p.Forget()
	shot, err := p.Picture()
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	if r, g, bl, _ := img.At(490, 290).RGBA(); img.Bounds().Dx() != 500 || r+g+bl != 0 {
		t.Errorf("the picture is %v with a corner of %d, %d, %d; want 500 wide and black", img.Bounds(), r, g, bl)
	}
}
