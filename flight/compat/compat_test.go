package compat_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/weir-go/weir/flight"
	singleflight "github.com/weir-go/weir/flight/compat"
)

func Example() {
	var g singleflight.Group
	v, err, shared := g.Do("mill", func() (any, error) { return 400, nil })
	fmt.Println(v, err, shared)
	// Output:
	// 400 <nil> false
}

// Behavior shared with singleflight is tested in examples/migrate, where one suite runs
// against both.
func TestDoChanReceivesFaults(t *testing.T) {
	var g singleflight.Group
	r := <-g.DoChan("k", func() (any, error) { panic("nil map") })
	var p *flight.PanicError
	if !errors.As(r.Err, &p) || p.Value != "nil map" {
		t.Errorf("DoChan = %v; want the panic", r.Err)
	}
	r = <-g.DoChan("k", func() (any, error) {
		runtime.Goexit()
		return nil, nil
	})
	if r.Err != flight.ErrGoexit {
		t.Errorf("DoChan = %v; want ErrGoexit", r.Err)
	}
}
