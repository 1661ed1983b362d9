package fleet_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
)

var updateGolden = flag.Bool("update", false, "write testdata/*.hex; only for a format that no release has stored yet")

// goldens are entries of each format that instances can find in an engine, by the
// name of the file with their bytes. A file stays as long as instances that write its
// format can run side by side with newer ones.
var goldens = map[string]fleet.Value{
	"v1-value": {
		Kind: fleet.KindValue, TTL: time.Minute, SWR: 5 * time.Second, SIE: time.Hour, Cost: 30 * time.Millisecond,
		Weight: 7, TagSeq: 1_795_000_000_000_000, Tags: []string{"a", "ü"}, Version: `"etag"`, Codec: "json", Data: []byte(`{"a":1}`),
	},
	"v1-not-found": {Kind: fleet.KindNotFound, TTL: time.Second, Codec: "json", Data: []byte("not found")},
}

// T14: this version reads the entries that it and earlier versions wrote, and writes
// them byte for byte the same.
func TestT14_GoldenEntriesAreRead(t *testing.T) {
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
		var got fleet.Value
		if err := got.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v; want %+v", file, got, err, want)
		}
		if b[0] == fleet.WireVersion && !bytes.Equal(b, written) {
			t.Errorf("%s: version %d is now encoded differently; give it a new number", file, b[0])
		}
		newer := append([]byte{fleet.WireVersion + 1}, b[1:]...)
		if err := new(fleet.Value).UnmarshalBinary(newer); !errors.Is(err, fleet.ErrWire) {
			t.Errorf("a newer version is read with %v; want ErrWire", err)
		}
	}
}
