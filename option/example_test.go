package option_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/option"
)

// One error reports all faults of an options struct; errors.As finds the first.
func ExampleError() {
	_, err := weir.New(func(_ context.Context, key string) (string, error) { return "", nil }, weir.Options{TTL: -time.Second})
	var fault *option.Error
	if errors.As(err, &fault) {
		fmt.Println(fault.Field, fault.Value)
	}
	// Output: Options.TTL -1s
}
