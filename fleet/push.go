package fleet

// PushRun is how many stores of a key push their values, after one that was found to
// pay, before a Tier counts again. While values are pushed, there is nothing to count.
const PushRun = 16

// The engine's costs of a pushed value, in ns, as measured on Redis (decision 0063): for
// each instance a fixed part and one for each byte, next to the request that it saves.
const (
	pushCost     = 160
	pushCostByte = 0.51
	askCost      = 47_000
)

// PushPays returns how many requests a pushed value must save, if it has this many bytes
// and this many instances get it: at least 1.
func PushPays(instances, bytes int) int {
	cost := float64(instances) * (pushCost + pushCostByte*float64(bytes))
	return 1 + int(cost/askCost)
}

// A heat decides which values of a key are pushed. Zero or more: the number of requests
// since the last store that a pushed value would have saved. Less: how many stores push
// their value without counting.
type heat int

// cold is the heat of a key whose last value must not be pushed: nothing is counted.
const cold heat = -1 << 30

// asked counts a request.
func (h *heat) asked() {
	if *h >= 0 {
		*h++
	}
}

// stored records a store, and reports whether to push its value.
func (h *heat) stored(may bool, pays int) bool {
	switch {
	case !may && *h != 0:
		*h = cold
	case !may: // nothing was counted: perhaps no instance uses pushed values
	case *h == cold:
		*h = 0
	case *h < 0:
		*h++
		return true
	case int(*h) >= pays:
		*h = -PushRun
		return true
	default:
		*h = 0
	}
	return false
}
