package demo

import (
	"context"
	"errors"

	"github.com/weir-go/weir/app/demo/source"
)

// A stage is the setup of a level: a service and its protection.
type stage struct {
	unit  string // its name on the Board
	base  string // where clients send requests
	close func(context.Context) error
}

// stage starts the stage of a level and puts it on the Board.
func (c Config) stage(ctx context.Context, unit string, l level, m *source.Meter) (stage, error) {
	guardKeys, routeKeys := HotKeys, HotKeys
	if c.Board == nil { // no client would request them
		guardKeys, routeKeys = 0, -1
	}
	answer, closeGuard, view, err := l.start(c.Source, m, unit, guardKeys)
	if err != nil {
		return stage{}, err
	}
	service, err := serve(answer, c.Keys, c.Source.ContentType())
	if err != nil {
		return stage{}, errors.Join(err, closeGuard(ctx))
	}
	s := stage{unit: unit, base: service.base, close: func(ctx context.Context) error {
		return errors.Join(service.close(ctx), closeGuard(ctx))
	}}
	if l.front != nil {
		front, err := startFront(*l.front, service.base, routeKeys)
		if err != nil {
			return stage{}, errors.Join(err, s.close(ctx))
		}
		view = newFrontView(unit, front)
		behind := s.close
		s.base, s.close = front.base, func(ctx context.Context) error {
			return errors.Join(front.close(ctx), behind(ctx))
		}
	}
	c.Board.show(unit, view)
	return s, nil
}
