package load

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A timerfd is a kernel timer that is polled like a socket: it neither occupies a
// processor nor rounds to milliseconds.
type timerfd struct {
	fd      int // of file; File.Fd would make it blocking
	file    *os.File
	unwatch func() bool
}

func newPacer(ctx context.Context) (pacer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	t := &timerfd{fd: fd, file: os.NewFile(uintptr(fd), "timerfd")}
	t.unwatch = context.AfterFunc(ctx, func() { t.file.SetReadDeadline(time.Unix(1, 0)) })
	return t, nil
}

func (t *timerfd) Wait(until time.Time) {
	d := time.Until(until)
	if d <= 0 {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(t.fd, 0, &spec, nil); err != nil {
		time.Sleep(d)
		return
	}
	var expired [8]byte
	t.file.Read(expired[:]) //nolint:errcheck // it fails when the run ends
}

func (t *timerfd) Close() error {
	t.unwatch()
	return t.file.Close()
}
