package accept_test

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/weirhttp/accept"
)

func ExampleChoose() {
	browser := []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
	fmt.Println(accept.Choose(browser, "application/json", "text/html"))
	fmt.Println(accept.Choose(nil, "application/json", "text/html"))
	fmt.Println(accept.Choose([]string{"image/png"}, "application/json", "text/html"))
	// Output:
	// 1
	// 0
	// -1
}

// The table of Accept fields is that of package errorpage, which uses Choose; these are the
// offers.
func TestChooseAmongOffers(t *testing.T) {
	for _, e := range []struct {
		accept string
		offers []string
		want   int
	}{
		{"*/*", nil, -1},
		{"text/*", []string{"application/json", "text/plain", "text/html"}, 1},
		{"text/html", []string{"text/html"}, 0},
		{"TEXT/HTML;q=0.5, application/*;q=0.6", []string{"text/html", "application/json"}, 1},
		{"text/html;q=0", []string{"text/html"}, -1},
	} {
		if got := accept.Choose([]string{e.accept}, e.offers...); got != e.want {
			t.Errorf("Choose(%q, %q) = %d; want %d", e.accept, e.offers, got, e.want)
		}
	}
}

func FuzzChoose(f *testing.F) {
	for _, s := range []string{"", "*/*", `a/b;c="d,e;q=1"`, "text/html;q=0.5,application/*", "\"", "a/b;q=0.\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, fields string) {
		if i := accept.Choose([]string{fields}, "application/json", "text/html"); i < -1 || i > 1 {
			t.Errorf("Choose(%q) = %d; want -1 to 1", fields, i)
		}
	})
}
