package responses_test

import (
	"testing"

	"github.com/weir-go/weir/internal/responses"
)

// fleeted returns a response that was fetched under these fences.
func fleeted(name string, root, place, fence uint64) *responses.Stored {
	r := named(name)
	r.Root, r.Place = root, place
	r.Fence.Store(fence)
	return r
}

func TestSupersedeRemovesWhatIsOlder(t *testing.T) {
	for _, tt := range []struct {
		root, fence uint64
		want        string
	}{{0, 5, ""}, {4, 5, ""}, {5, 5, "r"}, {6, 5, "r"}} {
		s := responses.New(responses.Options{Bytes: 1 << 20})
		put(t, s, key("/"), fleeted("r", tt.root, 0, tt.root))
		put(t, s, key("/other"), named("other"))
		older, newer := s.BeginUnder(key("/"), tt.fence-1), s.BeginUnder(key("/"), tt.fence)
		s.Supersede(key("/"), 0, tt.fence, true)
		wantBody(t, s, key("/"), tt.want)
		wantBody(t, s, key("/other"), "other")
		if !older.Void() || newer.Void() {
			t.Errorf("Supersede(%d): a write under %d is void: %v, one under %d: %v; want true, false", tt.fence, tt.fence-1, older.Void(), tt.fence, newer.Void())
		}
		if got, want := s.Stats().Purged, uint64(1-len(tt.want)); got != want {
			t.Errorf("Supersede(%d): Purged = %d; want %d", tt.fence, got, want)
		}
		newer.Drop()
		older.Drop()
	}
}

func TestSupersedeRemovesOneVariant(t *testing.T) {
	for _, tt := range []struct {
		place, fence uint64 // of the stored response
		want         string
	}{{7, 8, ""}, {7, 9, "r"}, {7, 10, "r"}, {6, 8, "r"}, {0, 8, "r"}} {
		s := responses.New(responses.Options{Bytes: 1 << 20})
		put(t, s, key("/"), fleeted("r", 5, tt.place, tt.fence))
		w := s.BeginUnder(key("/"), 5)
		s.Supersede(key("/"), 7, 9, true)
		wantBody(t, s, key("/"), tt.want)
		if got, want := s.Stats().Purged, uint64(1-len(tt.want)); got != want || w.Void() {
			t.Errorf("place %d, fence %d: Purged = %d, void %v; want %d, false", tt.place, tt.fence, got, w.Void(), want)
		}
		w.Drop()
	}
}

func TestSupersedeHasOlderOnesChecked(t *testing.T) {
	for _, tt := range []struct {
		r            *responses.Stored
		place, fence uint64
		want         int64
	}{
		{fleeted("r", 4, 0, 4), 0, 5, -1},
		{fleeted("r", 5, 0, 5), 0, 5, 1},
		{fleeted("r", 0, 0, 0), 0, 5, -1},
		{fleeted("r", 5, 7, 9), 0, 6, -1},
		{fleeted("r", 5, 7, 9), 7, 10, -1},
		{fleeted("r", 5, 7, 9), 7, 9, 1},
		{fleeted("r", 5, 7, 9), 8, 10, 1},
		{fleeted("r", 5, 0, 5), 8, 10, 1},
	} {
		s := responses.New(responses.Options{Bytes: 1 << 20})
		tt.r.Checked.Store(1)
		put(t, s, key("/"), tt.r)
		w := s.Begin(key("/"))
		s.Supersede(key("/"), tt.place, tt.fence, false)
		if got := tt.r.Checked.Load(); got != tt.want || w.Void() {
			t.Errorf("root %d, place %d: Supersede(%d, %d): Checked = %d, void %v; want %d, false", tt.r.Root, tt.r.Place, tt.place, tt.fence, got, w.Void(), tt.want)
		}
		w.Drop()
	}
}
