package admin

import (
	"regexp"
	"slices"

	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

// query finds what follows the path of a URL, up to its end in a sentence. What
// has no URL but a question mark in the middle of a word loses that word's rest.
var query = regexp.MustCompile(`[?#][^\s"'<>]+`)

// hidden is v, an answer about jobs, without what only who has submitted them
// should know: their keys, which hold URLs, their owners, and in the words of
// errors and of progress the queries of URLs.
func hidden(v any) any {
	switch v := v.(type) {
	case jobsctl.Page:
		page := jobsctl.Page{Jobs: make([]jobs.Status, len(v.Jobs)), More: v.More}
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
	j.Key, j.Owner, j.Error = "", "", withoutQueries(j.Error)
	if j.Progress != nil {
		p := *j.Progress
		p.Note = withoutQueries(p.Note)
		j.Progress = &p
	}
	j.History = slices.Clone(j.History)
	for i := range j.History {
		j.History[i].Error = withoutQueries(j.History[i].Error)
	}
	return j
}

// withoutQueries is a text for people without the queries, fragments and
// passwords of the URLs in it.
func withoutQueries(text string) string {
	return query.ReplaceAllString(plain.WithoutUser(text), "?…")
}
