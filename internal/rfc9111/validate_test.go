package rfc9111_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

func TestH29_IfModifiedSinceIsJudgedByDate(t *testing.T) {
	const ims = "If-Modified-Since"
	dated := fields("Date", httpTime(0))
	tests := []struct {
		name        string
		req, stored http.Header
		want        bool
	}{
		{"the same second", fields(ims, httpTime(0)), dated, true},
		{"later", fields(ims, httpTime(time.Hour)), dated, true},
		{"earlier", fields(ims, httpTime(-time.Second)), dated, false},
		{"another form of the date", fields(ims, t0.Format(time.ANSIC)), dated, true},
		{"no Date, by the time received", fields(ims, httpTime(0)), noFields, true},
		{"no Date, earlier", fields(ims, httpTime(-time.Second)), noFields, false},
		{"a broken Date", fields(ims, httpTime(0)), fields("Date", "yesterday"), true},
		{"not a date", fields(ims, "0"), dated, false},
		{"two lines", fields(ims, httpTime(0), ims, httpTime(0)), dated, false},
		{"absent", noFields, dated, false},
		{"Last-Modified decides", fields(ims, httpTime(0)), fields("Date", httpTime(0), "Last-Modified", httpTime(-time.Hour)), false},
		{"If-None-Match decides", fields(ims, httpTime(0), "If-None-Match", `"x"`), dated, false},
		{"If-Match decides", fields(ims, httpTime(0), "If-Match", `"x"`), dated, false},
	}
	for _, tt := range tests {
		if got := rfc9111.UnchangedSince(tt.req, tt.stored, t0.Add(time.Second/2)); got != tt.want {
			t.Errorf("%s: UnchangedSince(%v, %v) = %v; want %v", tt.name, tt.req, tt.stored, got, tt.want)
		}
	}
	if rfc9111.UnchangedSince(http.Header{ims: nil}, dated, t0) {
		t.Error("UnchangedSince without a value = true; want false")
	}
}
