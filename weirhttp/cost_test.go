package weirhttp

import (
	"bytes"
	"math"
	"net/http"
	"testing"

	"github.com/weir-go/weir/limit"
)

// H34: no length of a body makes the estimate small.
func TestH34_EstimatesDoNotOverflow(t *testing.T) {
	for _, row := range []struct {
		cost   Cost
		length int64
		want   int
	}{
		{Cost{BytesPerUnit: 1, Units: 10}, math.MaxInt64, limit.MaxUnits},
		{Cost{BytesPerUnit: limit.MaxUnits, Units: limit.MaxUnits}, math.MaxInt64, limit.MaxUnits},
		{Cost{BytesPerUnit: 1 << 20}, math.MaxInt64, limit.MaxUnits},
		{Cost{BytesPerUnit: 1 << 20, Units: 3}, 1 << 40, 1<<20 + 3},
		{Cost{BytesPerUnit: 4, Units: 3}, -1, 3},
	} {
		r := &http.Request{ContentLength: row.length}
		if got := newCosts(row.cost).estimate(r); got != row.want {
			t.Errorf("%+v for %d bytes = %d; want %d", row.cost, row.length, got, row.want)
		}
	}
}

// H34: a usage that a response states after MaxUsage bytes is not read, and the estimate
// stands. So
// the work for one response is bounded.
func TestH34_UsageIsReadUpToItsBound(t *testing.T) {
	const usage = `{"usage":{"total_tokens":25}}`
	blanks := bytes.Repeat([]byte(" "), 1<<20)
	comment := append(bytes.Repeat([]byte(":"), 1<<20-1), '\n')
	for _, row := range []struct {
		kind, end string
		fill      []byte
		before    int // bytes, in whole parts of fill
		want      int
	}{
		{"application/json", usage, blanks, MaxUsage - 1<<20, 25},
		{"application/json", usage, blanks, MaxUsage, 7},
		{"text/event-stream", "data: " + usage + "\n\n", comment, MaxUsage - 1<<20, 25},
		{"text/event-stream", "data: " + usage + "\n\n", comment, MaxUsage, 7},
	} {
		h, err := New(http.NotFoundHandler(), Options{Cost: Cost{Units: 7, Usage: "/usage/total_tokens"}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest(http.MethodPost, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := h.charge(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		c.head(200, http.Header{"Content-Type": {row.kind}})
		for range row.before / len(row.fill) {
			c.data(row.fill)
		}
		c.data([]byte(row.end))
		c.finish(200, nil)
		if got := h.Stats().Cost.Spent; got != uint64(row.want) {
			t.Errorf("%s with the usage after %d bytes: %d spent; want %d", row.kind, row.before, got, row.want)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// H34: a usage that cannot be meant is as if there was none, in the body and in a field: the
// estimate stands.
func TestH34_UsageThatCannotBeMeantIsNone(t *testing.T) {
	for usage, want := range map[string]uint64{
		"25": 25, "0": 0, "1e3": 1000, "1e400": 7, "1e18": 7, "99999999999999999999": 7, "1073741825": 7, "-1": 7, "-1e400": 7,
	} {
		for _, inField := range []bool{false, true} {
			cost := Cost{Units: 7, Usage: "/n"}
			head, body := http.Header{"Content-Type": {"application/json"}}, `{"n":`+usage+`}`
			if inField {
				cost = Cost{Units: 7, Header: "X-Usage"}
				head.Set("X-Usage", usage)
			}
			h, err := New(http.NotFoundHandler(), Options{Cost: cost})
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.NewRequest(http.MethodPost, "/", nil)
			if err != nil {
				t.Fatal(err)
			}
			c, err := h.charge(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			c.head(200, head)
			c.data([]byte(body))
			c.finish(200, nil)
			if got := h.Stats().Cost.Spent; got != want {
				t.Errorf("usage %s, in a field %v: %d spent; want %d", usage, inField, got, want)
			}
		}
	}
}
