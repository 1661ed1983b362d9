// Package tile renders map tiles of the Mandelbrot set as PNG: CPU work of some tens of
// milliseconds per tile, and no two tiles alike.
package tile

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"

	"github.com/weir-go/weir/app/demo/source"
)

const (
	// Size is the side of a tile in pixels, as in web maps.
	Size = 256

	// maxIterations limits the iterations per pixel. It determines the cost of a tile.
	maxIterations = 150

	// escape is the squared distance from which a point never returns. It is above the
	// smallest such distance, 4, so that the colors change smoothly.
	escape = 256

	// side is the width of a tile in the plane.
	side = 0.1

	// ring is the distance of the tiles' centers from the boundary of the main cardioid, as
	// a factor: just outside, where there is most detail.
	ring = 1.005

	// golden is the golden ratio's share of a turn. Multiples of it never repeat and are
	// evenly spread, so any number of keys gives that many different tiles.
	golden = 0.6180339887498949
)

// Source renders tiles. The zero Source is ready to use.
type Source struct{}

var _ source.Source = Source{}

// ContentType returns the media type of PNG.
func (Source) ContentType() string { return "image/png" }

// Load renders the tile of key.
func (Source) Load(ctx context.Context, key int, m *source.Meter) ([]byte, error) {
	defer m.Begin()()
	return Render(ctx, key)
}

// Render draws the tile of key and returns it as PNG. It stops at the end of
// a row of pixels when ctx ends, and returns the cause.
func Render(ctx context.Context, key int) ([]byte, error) {
	cx, cy := center(key)
	img := image.NewPaletted(image.Rect(0, 0, Size, Size), palette)
	for y := range Size {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("tile: render %d: %w", key, context.Cause(ctx))
		}
		ci := cy + side*(float64(y)/Size-0.5)
		row := img.Pix[y*img.Stride:]
		for x := range Size {
			row[x] = shade(cx+side*(float64(x)/Size-0.5), ci)
		}
	}
	var b bytes.Buffer
	enc := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := enc.Encode(&b, img); err != nil {
		return nil, fmt.Errorf("tile: encode %d: %w", key, err)
	}
	return b.Bytes(), nil
}

// center returns the center of key's tile in the plane: on the boundary of
// the main cardioid, at c = w/2 - w²/4 with |w| a little over 1.
func center(key int) (re, im float64) {
	sin, cos := math.Sincos(2 * math.Pi * math.Mod(float64(key+1)*golden, 1))
	re = ring*cos/2 - ring*ring*(cos*cos-sin*sin)/4
	im = ring*sin/2 - ring*ring*(2*sin*cos)/4
	return re, im
}

// shade follows the point z → z² + c and returns its color's index: 0 where
// it stays, otherwise by how soon it leaves.
func shade(cr, ci float64) uint8 {
	var zr, zi, rr, ii float64
	for n := range maxIterations {
		zi = 2*zr*zi + ci
		zr = rr - ii + cr
		rr, ii = zr*zr, zi*zi
		if rr+ii > escape {
			return uint8(1 + n%(len(palette)-1))
		}
	}
	return 0
}

// palette has black for the set itself, and a wheel of colors around it.
var palette = func() color.Palette {
	p := make(color.Palette, 1, 256)
	p[0] = color.Black
	for i := 1; i < 256; i++ {
		t := 2 * math.Pi * float64(i) / 255
		wave := func(shift float64) uint8 { return uint8(127.5 * (1 - math.Cos(t+shift))) }
		p = append(p, color.RGBA{R: wave(0), G: wave(0.7), B: wave(1.4), A: 255})
	}
	return p
}()
