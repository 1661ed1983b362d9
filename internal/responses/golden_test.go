package responses_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/responses"
)

var updateGolden = flag.Bool("update", false, "write testdata/*.hex; only for a format that nobody has stored yet")

// goldens holds responses and marks in each format that instances may find in an
// engine.
var goldens = map[string]responses.Wire{
	"v1-response": {
		Key: responses.Key{Scheme: "https", Host: "shop.example", Target: "/x?y=1"}, Status: 200, Age: 3 * time.Second,
		Header: http.Header{"Cache-Control": {"max-age=60"}, "Vary": {"Accept", "Accept-Language"}}, Body: []byte("body"),
	},
	"v1-mark": {Key: responses.Key{Scheme: "http", Host: "shop.example", Target: "/"}, Vary: []string{"Accept-Language"}},
}

// T14: this version reads its own stored files, byte for byte.
func TestT14_GoldenResponsesAreRead(t *testing.T) {
	for name, want := range goldens {
		file := "testdata/" + name + ".hex"
		written, err := want.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if *updateGolden {
			if err := os.WriteFile(file, []byte(hex.EncodeToString(written)+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var got responses.Wire
		if err := got.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s decodes as %+v, %v; want %+v", file, got, err, want)
		}
		if b[0] == responses.WireVersion && !bytes.Equal(b, written) {
			t.Errorf("%s: version %d is now encoded differently; increase the version number", file, b[0])
		}
		newer := append([]byte{responses.WireVersion + 1}, b[1:]...)
		if err := new(responses.Wire).UnmarshalBinary(newer); !errors.Is(err, responses.ErrWire) {
			t.Errorf("decoding a newer version = %v; want ErrWire", err)
		}
	}
}
