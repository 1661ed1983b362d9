package once

import (
	"net/http"
	"reflect"
	"testing"
	"time"
)

// TestH45_FieldsSurviveByteForByte keeps values that are not UTF-8, which HTTP allows.
func TestH45_FieldsSurviveByteForByte(t *testing.T) {
	o := FolderOptions{Folder: t.TempDir()}
	f, err := OpenFolder(o)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	want := Record{
		State: Answered, Route: "r", Since: now, Expires: now.Add(time.Hour), Status: 201, Body: []byte("\xff\x00"),
		Header:  http.Header{"Content-Disposition": {"attachment; filename=caf\xe9.txt", "<&>\u2028"}, "Content-Type": nil, "Empty": {""}},
		Trailer: http.Header{"Sum": {"\x80\xfe"}},
	}
	if _, err := f.Put(t.Context(), Sum("a"), want, 0); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"before", "after"} {
		got, err := f.Get(t.Context(), Sum("a"))
		if err != nil || !reflect.DeepEqual(got.Header, want.Header) || !reflect.DeepEqual(got.Trailer, want.Trailer) || string(got.Body) != string(want.Body) {
			t.Errorf("%s a restart: Get = %q, %q, %v; want %q, %q", when, got.Header, got.Trailer, err, want.Header, want.Trailer)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f, err = OpenFolder(o); err != nil {
			t.Fatal(err)
		}
	}
	_ = f.Close(t.Context())
}
