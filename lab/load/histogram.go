package load

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range and precision of a [Histogram]. Values outside count as the nearest value
// inside.
const (
	lowest  = time.Microsecond
	highest = time.Hour
	digits  = 3
)

// A Histogram is a distribution of latencies with three significant digits. The zero
// Histogram is empty. It is not safe for concurrent use.
//
// In JSON it is a string: HdrHistogram's V2 compressed format in base64, which other
// programs can also read, with microseconds as its unit.
type Histogram struct{ h *hdrhistogram.Histogram }

func newHistogram() Histogram {
	return Histogram{hdrhistogram.New(lowest.Microseconds(), highest.Microseconds(), digits)}
}

func (h *Histogram) record(d time.Duration) {
	// The value is in range, so there is no error to return.
	_ = h.h.RecordValue(min(max(d, lowest), highest).Microseconds())
}

// Count returns the number of values.
func (h Histogram) Count() int64 {
	if h.h == nil {
		return 0
	}
	return h.h.TotalCount()
}

// Percentile returns the value that q percent of the values do not exceed, 0 for an
// empty histogram.
func (h Histogram) Percentile(q float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(h.h.ValueAtPercentile(q)) * time.Microsecond
}

// Mean returns the mean of the values, 0 for an empty histogram.
func (h Histogram) Mean() time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(h.h.Mean() * float64(time.Microsecond))
}

// Merge adds the values of another histogram, which does not change.
func (h *Histogram) Merge(other Histogram) {
	if other.Count() == 0 {
		return
	}
	if h.h == nil {
		*h = newHistogram()
	}
	h.h.Merge(other.h)
}

var (
	_ json.Marshaler   = Histogram{}
	_ json.Unmarshaler = (*Histogram)(nil)
)

// MarshalJSON implements [json.Marshaler].
func (h Histogram) MarshalJSON() ([]byte, error) {
	if h.Count() == 0 {
		return []byte(`""`), nil
	}
	text, err := h.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("load: encode a histogram: %w", err)
	}
	return json.Marshal(string(text))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("load: decode a histogram: %w", err)
	}
	*h = Histogram{}
	if text == "" {
		return nil
	}
	decoded, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return fmt.Errorf("load: decode a histogram: %w", err)
	}
	h.h = decoded
	return nil
}
