package scenarios

import "testing"

func TestCompareEvents(t *testing.T) {
	accepted := map[int64]int{1: 1, 2: 1, 3: 1}
	for _, tt := range []struct {
		name                string
		done                map[int64]int
		lost, twice, others int
	}{
		{"all done", map[int64]int{1: 1, 2: 1, 3: 1}, 0, 0, 0},
		{"nothing done", nil, 3, 0, 0},
		{"one lost", map[int64]int{1: 1, 3: 1}, 1, 0, 0},
		{"one lost, another done as often", map[int64]int{1: 2, 3: 1}, 1, 1, 0},
		{"one done twice", map[int64]int{1: 1, 2: 3, 3: 1}, 0, 2, 0},
		{"one without an answer", map[int64]int{1: 1, 2: 1, 3: 1, 4: 1}, 0, 0, 1},
		{"one lost, and one without an answer", map[int64]int{1: 1, 2: 1, 4: 1}, 1, 0, 1},
	} {
		if lost, twice, others := compareEvents(accepted, tt.done); lost != tt.lost || twice != tt.twice || others != tt.others {
			t.Errorf("%s: compareEvents = %d, %d, %d; want %d, %d, %d", tt.name, lost, twice, others, tt.lost, tt.twice, tt.others)
		}
	}
}
