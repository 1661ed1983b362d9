package config_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/weir-go/weir/app/proxy/config"
)

// A star in a name is an error wherever it matches nothing. A setting that is new here either
// takes patterns, or needs a form that rejects them.
func TestC1_PatternsAreErrorsWhereTheyMatchNothing(t *testing.T) {
	var got []string
	for path, parse := range config.Parsers() {
		for _, text := range []string{"abc*", "application/*", "X-*", "GET*", "ab*cd"} {
			if _, err := parse(text); err == nil {
				got = append(got, path)
				break
			}
		}
	}
	slices.Sort(got)
	want := slices.Sorted(maps.Keys(map[string]string{
		"x": "",
	}))
	if !slices.Equal(got, want) {
		t.Errorf("a star is taken by\n%q; want\n%q", got, want)
	}
}
