package load

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Tool is a load tool's report of a run, as read by [ParseAb], [ParseHey],
// [ParseWrk] and [ParseH2load]. Numbers that a tool does not report are 0. An answer can count in
// several of the failure numbers: ab counts a rejection in Non2xx, and also in
// LengthFailures if its length differs.
type Tool struct {
	Complete       int64 // requests that ended, with or without a response
	Failed         int64 // failed by the tool's definition: no response, a late one, or, for ab, one of a different length
	Non2xx         int64 // answers with a status other than 2xx; for wrk, of 400 or more
	LengthFailures int64 // part of Failed: for ab, answers whose length differs from the first one's, including empty ones
	Statuses       map[int]int64
	Seconds        float64
	PerSecond      float64 // requests, good or not, as reported by the tool
	P50            time.Duration
	P99            time.Duration
	Slowest        time.Duration
}

// A report is the output of a load tool. Numbers are looked up with patterns whose
// first group is the number. The first required number that is missing becomes its
// err.
type report struct {
	tool, text string
	err        error
}

// find returns the first group of the first match, or the empty string.
func (r *report) find(p *regexp.Regexp) string {
	if m := p.FindStringSubmatch(r.text); m != nil {
		return m[1]
	}
	return ""
}

// must is find for numbers that each report must have.
func (r *report) must(p *regexp.Regexp) string {
	found := r.find(p)
	if found == "" && r.err == nil {
		r.err = fmt.Errorf("load: the output of %s has no match for %q: %s", r.tool, p, strings.TrimSpace(r.text))
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

// duration reads a number of that unit; with the empty unit the text includes one, as
// in 3.14ms.
func (r *report) duration(text, unit string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text + unit)
	r.fail(err)
	return d
}

// done returns t, or the error of the report.
func (r *report) done(t Tool) (Tool, error) {
	if r.err != nil {
		return Tool{}, r.err
	}
	return t, nil
}
