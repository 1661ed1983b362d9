package result

import (
	"cmp"
	"slices"
)

// A Group is the rounds of one variant under one setting.
type Group struct {
	Median Measurement   // the median round, by PerSecond; for an even number the lower of the two
	Rounds []Measurement // all rounds, in the order in which they were measured; at least one
}

// Groups groups the rounds by variant, setting and X, in the order in which the first
// of each was measured.
func Groups(all []Measurement) []Group {
	type key struct {
		variant, setting string
		x                float64
	}
	at := map[key]int{}
	var groups []Group
	for _, m := range all {
		k := key{m.Variant, m.Setting, m.X}
		i, ok := at[k]
		if !ok {
			i = len(groups)
			at[k] = i
			groups = append(groups, Group{})
		}
		groups[i].Rounds = append(groups[i].Rounds, m)
	}
	for i, g := range groups {
		sorted := slices.Clone(g.Rounds)
		slices.SortStableFunc(sorted, func(a, b Measurement) int { return cmp.Compare(a.PerSecond, b.PerSecond) })
		groups[i].Median = sorted[(len(sorted)-1)/2]
	}
	return groups
}

// Spread returns the lowest and the highest PerSecond of the rounds.
func (g Group) Spread() (low, high float64) {
	low, high = g.Rounds[0].PerSecond, g.Rounds[0].PerSecond
	for _, m := range g.Rounds {
		low, high = min(low, m.PerSecond), max(high, m.PerSecond)
	}
	return low, high
}

// Failures returns the sum over all rounds, because a median must not hide a failure.
func (g Group) Failures() (n int64) {
	for _, m := range g.Rounds {
		n += m.Failures
	}
	return n
}
