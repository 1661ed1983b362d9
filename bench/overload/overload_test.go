package overload_test

import (
	"flag"
	"regexp"
	"testing"

	"github.com/weir-go/weir/internal/simulate"
)

var scenarios = flag.String("scenarios", "^load 2, (queueing|convoy)$", "run the scenarios whose names match this regular expression")

// TestTable prints the table and a summary of it. It checks nothing about the peers.
func TestTable(t *testing.T) {
	chosen := regexp.MustCompile(*scenarios)
	var all [][]simulate.Report
	for _, s := range simulate.Scenarios() {
		if !chosen.MatchString(s.Name) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			reports := simulate.Compare(t, s, gates()...)
			all = append(all, reports)
			if err := simulate.Table(t.Output(), reports...); err != nil {
				t.Error(err)
			}
		})
	}
	if err := simulate.Summary(t.Output(), all); err != nil {
		t.Error(err)
	}
}
