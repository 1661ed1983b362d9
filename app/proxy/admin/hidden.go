package admin

import (
	"regexp"
	"slices"
	"strings"

	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

// query matches the part of a URL after its path, up to the URL's end in a sentence. In
// text without a URL, a question mark in the middle of a word matches the rest of the word.
var query = regexp.MustCompile(`[?#][^\s"'<>]+`)

// hidden returns v, a response about jobs, without what only their submitters should see:
// keys, which contain URLs, owners, headers, and the queries of URLs in errors, progress texts and logs.
func hidden(v any) any {
	switch v := v.(type) {
	case jobsctl.Page:
		page := jobsctl.Page{Jobs: make([]jobs.Status, len(v.Jobs)), More: v.More, Counts: v.Counts, CountsAge: v.CountsAge}
		for i, j := range v.Jobs {
			page.Jobs[i] = hiddenJob(j)
		}
		return page
	case jobs.Status:
		return hiddenJob(v)
	}
	return v
}

func hiddenJob(j jobs.Status) jobs.Status {
	j.Key, j.Owner, j.LimitKey, j.Label, j.Headers, j.Error = "", "", "", methodOf(j.Label), nil, withoutQueries(j.Error)
	if j.Progress != nil {
		p := *j.Progress
		p.Note = withoutQueries(p.Note)
		j.Progress = &p
	}
	j.History = slices.Clone(j.History)
	for i := range j.History {
		j.History[i].Error = withoutQueries(j.History[i].Error)
	}
	j.Log = slices.Clone(j.Log)
	for i := range j.Log {
		j.Log[i].Text = withoutQueries(j.Log[i].Text)
	}
	return j
}

// methodOf returns the method in the label of a request, "POST /reports", because the path
// is part of a key. Of other labels nothing is left.
func methodOf(label string) string {
	method, path, found := strings.Cut(label, " ")
	if !found || !strings.HasPrefix(path, "/") || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return ""
	}
	return method
}

// withoutQueries returns a text without the queries, fragments and passwords of the URLs in
// it.
func withoutQueries(text string) string {
	return query.ReplaceAllString(plain.WithoutUser(text), "?…")
}
