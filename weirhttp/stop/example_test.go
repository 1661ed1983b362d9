package stop_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir/weirhttp/stop"
)

// A request that contains its context. Nothing is registered anywhere unless something waits.
func Example() {
	var request struct {
		stop.Context
		path string
	}
	request.Start(context.Background())
	request.path = "/"
	closed := make(chan struct{})
	hook := stop.On(&request, func() { close(closed) })
	request.Cancel(errors.New("the client has left"))
	<-closed
	fmt.Println(request.Err(), context.Cause(&request), hook.Remove())
	// Output: context canceled the client has left false
}
