package result

import (
	"cmp"
	"slices"
)

// A Group is the rounds of one variant under one setting.
type Group struct {
	Median Measurement   // the median round, by PerSecond; of an even number the lower of the two
	Rounds []Measurement // all of them, in the order in which they were measured; at least one
}

// Groups puts the rounds of each variant, setting and X together, in the order
// in which the first of each was measured.
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

// Spread is the lowest and the highest PerSecond of the rounds.
func (g Group) Spread() (low, high float64) {
	low, high = g.Rounds[0].PerSecond, g.Rounds[0].PerSecond
	for _, m := range g.Rounds {
		low, high = min(low, m.PerSecond), max(high, m.PerSecond)
	}
	return low, high
}

// Failures is the sum over all rounds: a median must not hide one.
func (g Group) Failures() (n int64) {
	for _, m := range g.Rounds {
		n += m.Failures
	}
	return n
}
