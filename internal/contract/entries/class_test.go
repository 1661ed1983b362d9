package entries_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
)

func TestClassify(t *testing.T) {
	broken := errors.New("broken")
	asked := 0
	g := weir.Must(weir.New(func(context.Context, string) (int, error) { return 0, nil }, weir.Options{
		Classify: func(err error) weir.Class {
			if asked++; err == broken {
				return weir.ClassPermanent
			}
			return weir.ClassOverload
		},
	}))
	defer g.Close(context.Background())
	tests := []struct {
		err  error
		want weir.Class
	}{
		{nil, weir.ClassTransient},
		{broken, weir.ClassPermanent},
		{errors.New("else"), weir.ClassOverload},
		{fmt.Errorf("wrapped: %w", weir.ErrNotFound), weir.ClassNotFound},
		{&weir.TimeoutError{}, weir.ClassTransient},
		{&limit.Error{}, weir.ClassOverload},
		{weir.ErrStuck, weir.ClassOverload},
		{context.Canceled, weir.ClassCanceled},
		{&fleet.RemoteError{Failure: fleet.Failure{Kind: "permanent"}}, weir.ClassPermanent},
	}
	for _, tt := range tests {
		if got := g.Classify(tt.err); got != tt.want {
			t.Errorf("Classify(%v) = %v; want %v", tt.err, got, tt.want)
		}
	}
	if asked != 2 {
		t.Errorf("Options.Classify was called %d times; want 2: the other errors are the Guard's own", asked)
	}
}
