package weir_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir"
)

// A handler tells HTTP caches how long the value is still fresh, and which
// version it has.
func ExampleResult_maxAge() {
	load := func(ctx context.Context, id string, _ weir.Previous[string]) (weir.Entry[string], error) {
		return weir.Entry[string]{Value: "a page", Version: "7"}, nil
	}
	pages := weir.Must(weir.NewFrom(weir.Source[string, string]{LoadEntry: load}, weir.Options{TTL: time.Minute}))
	defer pages.Close(context.Background())

	handler := func(w http.ResponseWriter, r *http.Request) {
		page := pages.GetResult(r.Context(), r.URL.Path)
		if page.Err != nil {
			http.Error(w, page.Err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Cache-Control", fmt.Sprintf("max-age=%d", page.FreshFor/time.Second))
		w.Header().Set("ETag", fmt.Sprintf("%q", page.Version()))
		fmt.Fprint(w, page.Value)
	}
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Header().Get("Cache-Control"), w.Header().Get("ETag"), w.Body)
	// Output: max-age=60 "7" a page
}
