package rig

import (
	"time"

	"github.com/weir-go/weir"
)

// plain returns r without the fields that only some answers have.
func plain(r weir.Result[int]) weir.Result[int] {
	return weir.Result[int]{
		Value: r.Value, Err: r.Err, State: r.State, Source: r.Source, Age: r.Age,
		Joined: r.Joined, Superseded: r.Superseded, Cause: r.Cause,
	}
}

// The most common Results.
func Fresh(v int, age time.Duration) weir.Result[int] {
	return weir.Result[int]{Value: v, State: weir.StateFresh, Source: weir.FromMemory, Age: age}
}

func Stale(v int, age time.Duration) weir.Result[int] {
	return weir.Result[int]{Value: v, State: weir.StateStale, Source: weir.FromMemory, Age: age}
}

func StaleOnError(v int, age time.Duration, cause error) weir.Result[int] {
	return weir.Result[int]{Value: v, State: weir.StateStaleOnError, Source: weir.FromMemory, Age: age, Cause: cause}
}

func Loaded(v int) weir.Result[int] {
	return weir.Result[int]{Value: v, State: weir.StateLoaded, Source: weir.FromLoad}
}

func Failure(err error) weir.Result[int] { return weir.Result[int]{Err: err} }

func Joined(r weir.Result[int]) weir.Result[int] {
	r.Joined = true
	return r
}

func Superseded(r weir.Result[int]) weir.Result[int] {
	r.Superseded = true
	return r
}

func Negative(source weir.Origin, age time.Duration) weir.Result[int] {
	return weir.Result[int]{Err: weir.ErrNotFound, State: weir.StateNegative, Source: source, Age: age}
}

// Remembered is a failure from the memo.
func Remembered(err error) weir.Result[int] {
	return weir.Result[int]{Err: err, Source: weir.FromMemory}
}
