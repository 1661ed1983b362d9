package load

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Tool is what a load tool has told of a run, in the terms of [ParseAb],
// [ParseHey] and [ParseWrk]. What a tool does not tell is 0. An answer can be
// in several of the numbers of what went wrong: ab counts a refusal among
// Non2xx, and also among LengthFailures if it is of another length.
type Tool struct {
	Complete       int64 // requests that came to an end, with an answer or without
	Failed         int64 // what the tool calls failed: no answer, a late one, or, for ab, one of another length
	Non2xx         int64 // answers with another status; for wrk, with one of 400 or more
	LengthFailures int64 // of Failed: for ab, answers whose length is not the first one's, also empty ones
	Statuses       map[int]int64
	Seconds        float64
	PerSecond      float64 // requests, good or not, as the tool has it
	P50            time.Duration
	P99            time.Duration
	Slowest        time.Duration
}

// A report is the output of a load tool, of which numbers are looked up by
// patterns whose first group is the number. The first one that must be there
// and is not becomes its err.
type report struct {
	tool, text string
	err        error
}

// find returns the first group of the first match, the empty string if there
// is none.
func (r *report) find(p *regexp.Regexp) string {
	if m := p.FindStringSubmatch(r.text); m != nil {
		return m[1]
	}
	return ""
}

// must is find for what each report has.
func (r *report) must(p *regexp.Regexp) string {
	found := r.find(p)
	if found == "" && r.err == nil {
		r.err = fmt.Errorf("load: the output of %s has nothing like %q: %s", r.tool, p, strings.TrimSpace(r.text))
	}
	return found
}

func (r *report) fail(err error) {
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("load: the output of %s: %w", r.tool, err)
	}
}

// count reads a whole number; the empty string is 0.
func (r *report) count(text string) int64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	r.fail(err)
	return n
}

// number reads a number; the empty string is 0.
func (r *report) number(text string) float64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	r.fail(err)
	return n
}

// duration reads a number of that unit; with the empty unit, the text has one,
// as in 3.14ms.
func (r *report) duration(text, unit string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text + unit)
	r.fail(err)
	return d
}

// done returns t, or what was wrong with the report.
func (r *report) done(t Tool) (Tool, error) {
	if r.err != nil {
		return Tool{}, r.err
	}
	return t, nil
}
