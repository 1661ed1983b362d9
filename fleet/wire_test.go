package fleet_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/histories"
)

func appended(t testing.TB, v *fleet.Value) []byte {
	t.Helper()
	b, err := v.AppendBinary(nil)
	if err != nil {
		t.Fatalf("AppendBinary(%+v) = %v; want nil", v, err)
	}
	return b
}

// golden are values in version 1, which this version and all later ones that support
// version 1 must read. These bytes may never change.
var golden = []struct {
	name  string
	hex   string
	value fleet.Value
}{
	{"zero", "010000000000000000000000", fleet.Value{Data: []byte{}}},
	{"not found", "01018094ebdc0300000000000000046a736f6e04676f6e65", fleet.Value{
		Kind: fleet.KindNotFound, TTL: time.Second, Codec: "json", Data: []byte("gone"),
	}},
	{
		"everything",
		"010080b09dc2df0180f092cbdd0880c0e285e36880a3c3478080408080f9c0c1c482030201780479007a7d0422763922046a736f6e097b2261223a317d00ff",
		fleet.Value{
			TTL: time.Minute, SWR: 5 * time.Minute, SIE: time.Hour, Cost: 150 * time.Millisecond, Weight: 1 << 20, TagSeq: 1_700_000_000_000_000,
			Tags: []string{"x", "y\x00z}"}, Version: `"v9"`, Codec: "json", Data: []byte("{\"a\":1}\x00\xff"),
		},
	},
}

func TestWireGolden(t *testing.T) {
	for _, c := range golden {
		want, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if got := appended(t, &c.value); !bytes.Equal(got, want) {
			t.Errorf("%s: AppendBinary = %x; want %x", c.name, got, want)
		}
		var v fleet.Value
		if err := v.UnmarshalBinary(want); err != nil || !reflect.DeepEqual(v, c.value) {
			t.Errorf("%s: UnmarshalBinary = %+v, %v; want %+v", c.name, v, err, c.value)
		}
	}
}

func text(rng *rand.Rand, most int) string {
	b := make([]byte, rng.IntN(most))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

func TestWireRoundTrip(t *testing.T) {
	for seed := range histories.Seeds(t, 50, 500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		duration := func() time.Duration { return time.Duration(rng.Uint64() >> 1 >> rng.IntN(63)) }
		in := fleet.Value{
			Kind: fleet.ValueKind(rng.IntN(2)), TTL: duration(), SWR: duration(), SIE: duration(), Cost: duration(),
			Weight: rng.Uint32(), TagSeq: rng.Uint64(), Version: text(rng, 40), Codec: text(rng, 10), Data: []byte(text(rng, 300)),
		}
		for range rng.IntN(5) {
			in.Tags = append(in.Tags, text(rng, 300))
		}
		prefix := []byte("before")
		b, err := in.AppendBinary(prefix)
		if err != nil || !bytes.HasPrefix(b, prefix) {
			t.Fatalf("seed %d: AppendBinary = %q, %v; want the prefix unchanged, and nil", seed, b, err)
		}
		b = b[len(prefix):]
		var out fleet.Value
		if err := out.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(in, out) {
			t.Fatalf("seed %d: UnmarshalBinary = %+v, %v; want %+v", seed, out, err, in)
		}
		for cut := range b {
			if err := out.UnmarshalBinary(b[:cut]); !errors.Is(err, fleet.ErrWire) {
				t.Fatalf("seed %d: UnmarshalBinary of %d of %d bytes = %v; want ErrWire", seed, cut, len(b), err)
			}
		}
		if err := out.UnmarshalBinary(append(b, 0)); !errors.Is(err, fleet.ErrWire) {
			t.Fatalf("seed %d: UnmarshalBinary with an extra byte = %v; want ErrWire", seed, err)
		}
	}
}

func TestWireRefuses(t *testing.T) {
	good := appended(t, &fleet.Value{})
	at := func(i int, b byte) []byte {
		bad := bytes.Clone(good)
		bad[i] = b
		return bad
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "version 0": at(0, 0), "version 2": at(0, 2), "an unknown kind": at(1, 2),
		"tags that are not there": at(8, 1), "many tags that are not there": at(8, 127), "data that is not there": at(11, 1),
	} {
		var v fleet.Value
		if err := v.UnmarshalBinary(b); !errors.Is(err, fleet.ErrWire) {
			t.Errorf("UnmarshalBinary of %s = %v; want ErrWire", name, err)
		}
	}
	for _, v := range []fleet.Value{{TTL: -1}, {SWR: -1}, {SIE: -1}, {Cost: math.MinInt64}} {
		if b, err := v.AppendBinary(nil); err == nil {
			t.Errorf("AppendBinary(%+v) = %x, nil; want an error", v, b)
		}
	}
}

func TestJSONCodec(t *testing.T) {
	type user struct{ Name string }
	var c fleet.Codec = fleet.JSON{}
	b, err := c.Marshal(user{"a"})
	var out user
	if err != nil || c.Name() != "json" || c.Unmarshal(b, &out) != nil || out.Name != "a" {
		t.Errorf("%s: %q, %v became %+v; want json and the same", c.Name(), b, err, out)
	}
	if err := c.Unmarshal([]byte(`{"Name":"b","New":1}`), &out); err != nil || out.Name != "b" {
		t.Errorf("Unmarshal of an unknown field = %v, %+v; want nil, b", err, out)
	}
}

// FuzzValue: reading never panics, whatever the bytes. A value that was read stays
// the same when it is written and read again.
func FuzzValue(f *testing.F) {
	for _, c := range golden {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Add([]byte{})
	f.Add([]byte{fleet.WireVersion + 1, 0, 0})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var v, again fleet.Value
		if err := v.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, fleet.ErrWire) {
				t.Errorf("UnmarshalBinary(%x) = %v; want ErrWire", b, err)
			}
			return
		}
		out := appended(t, &v)
		if len(out) > len(b) {
			t.Errorf("%x became %x, which is longer", b, out)
		}
		if err := again.UnmarshalBinary(out); err != nil || !reflect.DeepEqual(v, again) {
			t.Errorf("UnmarshalBinary(%x) = %+v, %v; want %+v", out, again, err, v)
		}
	})
}
