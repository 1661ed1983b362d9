package terminal_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/app/terminal"
)

func TestProgressElsewhereWritesALineAStepAndNoControlCharacters(t *testing.T) {
	var b bytes.Buffer
	p := terminal.NewProgress(&b, false, 0)
	p.Start("one", func() string { return "never shown" })
	p.Done("12 requests")
	p.Start("two", func() string { return "never shown" })
	p.Close() // without a result
	p.Close()
	p.Done("no step runs")
	if got, want := b.String(), "one: 12 requests\n"; got != want {
		t.Errorf("wrote %q; want %q", got, want)
	}
}

func TestProgressOnATerminalDrawsAndErases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := terminal.NewProgress(&b, true, 20)
		p.Start("one", func() string { return strings.Repeat("ä", 30) })
		time.Sleep(500 * time.Millisecond)
		p.Done("12 requests")
		const line = "\r\x1b[Kone: äääääääääääää…"
		if got, want := b.String(), strings.Repeat(line, 3)+"\r\x1b[K"; got != want {
			t.Errorf("wrote %q; want %q", got, want)
		}
	})
}

func TestABufferIsNoTerminal(t *testing.T) {
	env := func(string) string { return "" }
	if w := new(bytes.Buffer); terminal.Is(w, env) || terminal.Color(w, env) || terminal.Width(w) != 0 {
		t.Error("a buffer is treated as a terminal")
	}
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if terminal.Is(f, env) || terminal.Color(f, env) || terminal.Width(f) != 0 {
		t.Error("a file is treated as a terminal")
	}
}
