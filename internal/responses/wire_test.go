package responses_test

import (
	"bytes"
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/responses"
)

func wires() []responses.Wire {
	return []responses.Wire{
		{Key: key("/a?b=c"), Status: 200, Age: 3 * time.Second, Body: []byte("body"), Header: http.Header{
			"Cache-Control": {"max-age=60"}, "Etag": {`"1"`}, "X-Empty": {""}, "X-Two": {"b", "a"}, "X-None": {},
		}},
		{Key: key("/"), Status: 599, Header: http.Header{}, Body: []byte{}},
		{Key: responses.Key{}, Vary: []string{"Accept", "cookie:a"}},
	}
}

func written(t testing.TB, w responses.Wire) []byte {
	t.Helper()
	b, err := w.AppendBinary([]byte("before"))
	if err != nil || !bytes.HasPrefix(b, []byte("before")) {
		t.Fatalf("AppendBinary(%v) = %q, %v", w, b, err)
	}
	return b[len("before"):]
}

func TestWireIsReadAsItWasWritten(t *testing.T) {
	for _, w := range wires() {
		b := written(t, w)
		var got responses.Wire
		if err := got.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(got, w) {
			t.Errorf("UnmarshalBinary(%q) = %+v, %v; want %+v", b, got, err, w)
		}
		if len(got.Body) > 0 {
			b[len(b)-1]++
			if !bytes.Equal(got.Body, w.Body) {
				t.Errorf("Body points into the input")
			}
		}
	}
	if _, err := (&responses.Wire{Age: -1}).AppendBinary(nil); err == nil {
		t.Error("AppendBinary with an age of -1 = nil; want an error")
	}
}

func TestWireRefusesWhatIsNone(t *testing.T) {
	whole := written(t, wires()[0])
	mark := written(t, wires()[2])
	bad := [][]byte{nil, {1}, append([]byte{2}, whole[1:]...), append([]byte{1, 'x'}, whole[2:]...), append(mark, 0)}
	for n := range len(whole) - len("body") {
		bad = append(bad, whole[:n])
	}
	for n := range mark {
		bad = append(bad, mark[:n])
	}
	for _, w := range []responses.Wire{
		{Key: key("/"), Status: 199}, {Key: key("/"), Status: 600}, {Key: key("/"), Vary: []string{""}},
		{Key: key("/"), Status: 200, Header: http.Header{"A": {"b\r\nSet-Cookie: c"}}},
		{Key: key("/"), Status: 200, Header: http.Header{"A\n": {"b"}}},
		{Key: key("/"), Status: 200, Header: http.Header{"": {"b"}}},
	} {
		bad = append(bad, written(t, w))
	}
	for _, b := range bad {
		if err := new(responses.Wire).UnmarshalBinary(b); !errors.Is(err, responses.ErrWire) {
			t.Errorf("UnmarshalBinary(%q) = %v; want ErrWire", b, err)
		}
	}
}

func FuzzWire(f *testing.F) {
	for _, w := range wires() {
		f.Add(written(f, w))
	}
	f.Add([]byte{1, 'r', 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		var w, again responses.Wire
		if err := w.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, responses.ErrWire) {
				t.Fatalf("UnmarshalBinary(%q) = %v; want ErrWire", b, err)
			}
			return
		}
		if err := again.UnmarshalBinary(written(t, w)); err != nil || !reflect.DeepEqual(again, w) {
			t.Errorf("%q decoded, encoded and decoded again = %+v, %v; want %+v", b, again, err, w)
		}
	})
}
