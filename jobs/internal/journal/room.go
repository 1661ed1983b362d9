package journal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/nats-io/nats.go"
)

// RoomSubject is where a server receives the question whether it accepts new jobs. The
// response is the reason why it does not, although it may still write what accepted jobs need
// to end. Otherwise it is empty, with a [RoomLeft]. Package embedded serves it; other servers
// have no such state.
const RoomSubject = "weir.jobs-room." + version

// RoomLeft is the header field of how many bytes the server can store before it refuses new
// jobs. Without one there is no bound.
const RoomLeft = "Weir-Left"

// A Roomer is a Flusher that also knows whether its server accepts new jobs.
type Roomer interface {
	// Room returns how many bytes the server can store before it refuses new jobs;
	// math.MaxInt64: no bound. If it refuses them, Room returns the reason.
	Room() (left int64, why error)
}

// Room returns how many bytes the server can store before it refuses new jobs, or an ErrFull
// if it accepts none.
func (j *Journal) Room(ctx context.Context) (left int64, err error) {
	if left, why, here := j.localRoom(); here {
		return left, why
	}
	if !j.rooms {
		return math.MaxInt64, nil
	}
	ctx, cancel := context.WithTimeout(ctx, j.try())
	defer cancel()
	answer, err := j.nc.RequestWithContext(ctx, RoomSubject, nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return math.MaxInt64, nil // it is another server by now
	case err != nil:
		return 0, j.mapError(err)
	case len(answer.Data) > 0:
		return 0, fmt.Errorf("%w: %s", ErrFull, answer.Data)
	}
	if left, err = strconv.ParseInt(answer.Header.Get(RoomLeft), 10, 64); err != nil {
		return math.MaxInt64, nil
	}
	return left, nil
}

// LocalRoom returns an ErrFull if the server runs in this process and accepts no new jobs.
func (j *Journal) LocalRoom() error {
	_, why, _ := j.localRoom()
	return why
}

func (j *Journal) localRoom() (left int64, why error, here bool) {
	f, ok := local.Load(j.nc.ConnectedServerId())
	if !ok {
		return 0, nil, false
	}
	r, ok := f.(Roomer)
	if !ok {
		return 0, nil, false
	}
	if left, why = r.Room(); why != nil {
		return 0, fmt.Errorf("%w: %v", ErrFull, why), true
	}
	return left, nil, true
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
