package tile_test

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"testing"

	"github.com/weir-go/weir/app/demo/source"
	"github.com/weir-go/weir/app/demo/tile"
)

func TestRenderIsAPictureOfTheRightSize(t *testing.T) {
	b, err := tile.Render(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	if got := img.Bounds().Size(); got.X != tile.Size || got.Y != tile.Size {
		t.Errorf("size = %v; want %d x %d", got, tile.Size, tile.Size)
	}
	colors := map[[3]uint32]bool{}
	for y := range tile.Size {
		for x := range tile.Size {
			r, g, b, _ := img.At(x, y).RGBA()
			colors[[3]uint32{r, g, b}] = true
		}
	}
	if len(colors) < 20 {
		t.Errorf("the tile has %d colors; want a picture, at least 20", len(colors))
	}
}

func TestRenderSameKeySameBytesOtherKeyOtherBytes(t *testing.T) {
	const keys = 12
	seen := map[string]int{}
	for key := range keys {
		b, err := tile.Render(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if twin, ok := seen[string(b)]; ok {
			t.Errorf("tiles %d and %d are alike", twin, key)
		}
		seen[string(b)] = key
	}
	again, err := tile.Render(t.Context(), 3)
	if key, ok := seen[string(again)]; err != nil || !ok || key != 3 {
		t.Errorf("tile 3 rendered again is that of key %d (%v), %v; want the same bytes", key, ok, err)
	}
}

func TestRenderStopsWithItsContext(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if b, err := tile.Render(ctx, 0); b != nil || !errors.Is(err, gone) {
		t.Errorf("Render with an ended context = %d bytes, %v; want none, %v", len(b), err, gone)
	}
}

func TestSourceCountsOnItsMeter(t *testing.T) {
	var m source.Meter
	if _, err := (tile.Source{}).Load(t.Context(), 1, &m); err != nil {
		t.Fatal(err)
	}
	if got, want := m.Count(), (source.Count{Calls: 1, Most: 1}); got != want {
		t.Errorf("Count = %+v; want %+v", got, want)
	}
}

func BenchmarkRender(b *testing.B) {
	b.ReportAllocs()
	for key := 0; b.Loop(); key++ {
		if _, err := tile.Render(b.Context(), key%32); err != nil {
			b.Fatal(err)
		}
	}
}
