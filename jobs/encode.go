package jobs

import (
	"strconv"
	"time"
)

// Three records are written for each job, so the usual ones are encoded without
// reflection, as encoding/json would. A test compares the two for every field.

// A metaText is the JSON text of an object that is being written.
type metaText struct {
	text  []byte
	plain bool // false: encoding/json has to write it
}

// encodePlain encodes an item or a record, or returns nil if it has a field that only
// encoding/json can encode.
func encodePlain(v any) []byte {
	t := metaText{text: make([]byte, 0, 512), plain: true}
	switch v := v.(type) {
	case item:
		t.item(&v)
	case record:
		t.record(&v)
	default:
		return nil
	}
	if !t.plain {
		return nil
	}
	t.text[0] = '{'
	return append(t.text, '}')
}

func (t *metaText) item(it *item) {
	t.number("v", int64(it.Form), true)
	t.string("key", it.Key)
	t.string("owner", it.Owner)
	t.string("label", it.Label)
	t.string("serial", it.Serial)
	t.string("print", it.Fingerprint)
	t.number("in", int64(it.Version), false)
	t.number("delay", int64(it.Delay), false)
	t.number("deadline", int64(it.Deadline), false)
	t.number("keep", int64(it.Keep), false)
	t.number("lease", int64(it.Lease), true)
	t.string("limit", it.LimitKey)
	t.plain = t.plain && len(it.Headers) == 0
}

func (t *metaText) record(r *record) {
	t.item(&r.item)
	t.string("state", r.State.String())
	t.number("of", int64(r.Of), true)
	t.number("attempt", int64(r.Attempt), false)
	t.number("spent", int64(r.Spent), false)
	t.number("snoozes", int64(r.Snoozes), false)
	t.number("crashes", int64(r.Crashes), false)
	t.yes("unsecured", r.Unsecured)
	t.yes("begun", r.Begun)
	t.number("fence", int64(r.Fence), false)
	t.string("worker", r.Worker)
	t.time("submitted", r.Submitted)
	if !r.Started.IsZero() {
		t.time("started", r.Started)
	}
	t.number("retry_in", int64(r.RetryIn), false)
	t.string("error", r.Error)
	t.number("logged", int64(r.Logged), false)
	t.yes("no_input", r.NoInput)
	t.number("shown", int64(r.Shown), false)
	t.plain = t.plain && r.State != 0 && r.Progress == nil && len(r.History) == 0 && len(r.Log) == 0 &&
		int64(r.Of) >= 0 && int64(r.Fence) >= 0 && int64(r.Shown) >= 0
}

func (t *metaText) name(name string) {
	t.text = append(t.text, ',', '"')
	t.text = append(t.text, name...)
	t.text = append(t.text, '"', ':')
}

func (t *metaText) number(name string, n int64, always bool) {
	if n != 0 || always {
		t.name(name)
		t.text = strconv.AppendInt(t.text, n, 10)
	}
}

func (t *metaText) yes(name string, is bool) {
	if is {
		t.name(name)
		t.text = append(t.text, "true"...)
	}
}

func (t *metaText) string(name, s string) {
	if s == "" {
		return
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			t.plain = false
			return
		}
	}
	t.name(name)
	t.text = append(t.text, '"')
	t.text = append(t.text, s...)
	t.text = append(t.text, '"')
}

func (t *metaText) time(name string, at time.Time) {
	t.name(name)
	t.text = append(t.text, '"')
	text, err := at.AppendText(t.text)
	if err != nil {
		t.plain = false
		return
	}
	t.text = append(text, '"')
}
