package fromvarnish

import (
	"testing"

	"github.com/weir-go/weir/examples/migrate/internal/front"
)

func TestBefore(t *testing.T) {
	front.Run(t, func(t *testing.T, origin string) front.Front { return front.Varnish(t, "pages.vcl", origin) })
}

func TestAfter(t *testing.T) {
	front.Run(t, func(t *testing.T, origin string) front.Front { return front.Weir(t, "weir.yaml", origin) })
}
