package config_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/weir-go/weir/app/proxy/config"
)

// isFile matches the settings that name a file or a folder, whose names may have a star.
var isFile = regexp.MustCompile(`(file|\.dir|\.cert|\.key|\.ca|\.html|\.json)$`)

// A star in a name is an error wherever it matches nothing. A new setting either takes
// patterns, and is listed here, or needs a form that rejects them.
func TestC1_PatternsAreErrorsWhereTheyMatchNothing(t *testing.T) {
	want := []string{
		"routes[].cache.unkeyed_headers",
		"routes[].events.end", // the text of an event, as it is
		"routes[].events.end_type",
		"routes[].events.incomplete_data",
		"routes[].events.incomplete_types",
		"routes[].query.drop",
		"routes[].query.keep",
	}
	var got []string
	for path, parse := range config.Parsers() {
		takes := slices.ContainsFunc([]string{"abc*", "application/*", "X-*", "GET*", "ab*cd"}, func(text string) bool {
			_, err := parse(text)
			return err == nil
		})
		if takes && !isFile.MatchString(path) {
			got = append(got, path)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("a star is taken by\n%q; want\n%q", got, want)
	}
}
