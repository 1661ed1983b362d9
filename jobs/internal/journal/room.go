package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// RoomSubject is where a server receives the question whether it accepts new jobs. The
// response is empty, or the reason why it does not, although it may still write what accepted jobs
// need to end. Package embedded serves it; other servers have no such state.
const RoomSubject = "weir.jobs-room." + version

// A Roomer is a Flusher that also knows whether its server accepts new jobs.
type Roomer interface {
	// Room returns why it does not, or nil. It must not block.
	Room() error
}

// Room returns an ErrFull if the server accepts no new jobs.
func (j *Journal) Room(ctx context.Context) error {
	if why, here := j.localRoom(); here {
		return why
	}
	if !j.rooms {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, j.try())
	defer cancel()
	answer, err := j.nc.RequestWithContext(ctx, RoomSubject, nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil // it is another server by now
	case err != nil:
		return j.mapError(err)
	case len(answer.Data) > 0:
		return fmt.Errorf("%w: %s", ErrFull, answer.Data)
	}
	return nil
}

// LocalRoom is Room without a request: it is nil if the server runs in another process.
func (j *Journal) LocalRoom() error {
	why, _ := j.localRoom()
	return why
}

func (j *Journal) localRoom() (why error, here bool) {
	f, ok := local.Load(j.nc.ConnectedServerId())
	if !ok {
		return nil, false
	}
	r, ok := f.(Roomer)
	if !ok {
		return nil, false
	}
	if why := r.Room(); why != nil {
		return fmt.Errorf("%w: %v", ErrFull, why), true
	}
	return nil, true
}

// findRoom checks whether the server says if it accepts new jobs.
func (j *Journal) findRoom(ctx context.Context) error {
	_, err := j.nc.RequestWithContext(ctx, RoomSubject, nil)
	j.rooms = !errors.Is(err, nats.ErrNoResponders)
	if err != nil && j.rooms {
		return j.mapError(err)
	}
	return nil
}
