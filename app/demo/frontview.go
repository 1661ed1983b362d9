package demo

import (
	"context"
	"errors"

	"github.com/weir-go/weir/app/proxy/show"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/inspect"
)

// frontView shows a level's gateway, with its one route, under the level's name, because
// the parts of all levels' gateways have the same names.
type frontView struct {
	console.BaseSource

	unit    string
	gateway *gateway.Gateway
	source  *show.Source
}

var _ console.Source = frontView{}

func newFrontView(unit string, f *front) frontView {
	s := show.New(show.Options{Gateway: f.gateway})
	s.Configure(f.config)
	return frontView{unit: unit, gateway: f.gateway, source: s}
}

// rename gives a unit and its limit, if any, the level's name.
func (v frontView) rename(u *console.Unit) {
	u.Name = v.unit
	if u.Limit != "" {
		u.Limit = v.unit
	}
}

func (v frontView) Snapshot() console.Snapshot {
	s := v.source.Snapshot()
	for i := range s.Units {
		v.rename(&s.Units[i])
	}
	for i := range s.Limits {
		s.Limits[i].Name = v.unit
	}
	for i := range s.Stores {
		s.Stores[i].Name = v.unit
	}
	for i := range s.Servers {
		s.Servers[i].Upstream = v.unit
	}
	return s
}

func (v frontView) Detail(_ string, most int) (console.Detail, bool) {
	d, ok := v.source.Detail(routeName, most)
	v.rename(&d.Unit)
	if d.Limit != nil {
		d.Limit.Name = v.unit
	}
	return d, ok
}

func (v frontView) HotKeys(_ string, most int) (inspect.HotKeys, bool) {
	return v.source.HotKeys(routeName, most)
}

// Abilities implements console.Source.
func (v frontView) Abilities() console.Abilities { return console.Abilities{Purge: v.purge} }

func (v frontView) purge(ctx context.Context, _ string, _ []string, all bool) (bool, error) {
	if !all {
		return true, errors.New("the responses of the demo have no tags")
	}
	return true, v.gateway.Cache().InvalidateAll(ctx)
}
