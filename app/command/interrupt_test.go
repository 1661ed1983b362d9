package command

import (
	"bytes"
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
)

func TestFirstSignalEndsTheContextSecondTheProgram(t *testing.T) {
	for _, tt := range []struct{ leaves, want string }{
		{"", "weir: interrupted again, and ended at once\n"},
		{"schema weir_demo_1", "weir: interrupted again, and ended at once; may be left behind: schema weir_demo_1\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var stderr bytes.Buffer
			var exits []int
			signals := make(chan os.Signal, 2)
			e := Env{Stderr: &stderr, Signals: signals, Exit: func(code int) { exits = append(exits, code) }}
			ctx, end := e.interruptible(t.Context(), "weir")
			end.leaves(tt.leaves)

			signals <- os.Interrupt
			synctest.Wait()
			if got := context.Cause(ctx); got != ErrInterrupted || len(exits) > 0 {
				t.Errorf("after a signal: cause %v, exits %v; want %v, none", got, exits, ErrInterrupted)
			}
			signals <- syscall.SIGTERM
			synctest.Wait()
			if len(exits) != 1 || exits[0] != ExitFailed || stderr.String() != tt.want {
				t.Errorf("after a second signal: exits %v, stderr %q; want [%d], %q", exits, stderr.String(), ExitFailed, tt.want)
			}
			end.stop()
		})
	}
}

func TestStopWithoutASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := Env{Signals: make(chan os.Signal)}
		ctx, end := e.interruptible(t.Context(), "weir")
		end.stop() // the bubble fails if the watcher stays
		if got := context.Cause(ctx); got == nil || got == ErrInterrupted {
			t.Errorf("cause after stop = %v; want the end, and no interrupt", got)
		}
	})
}

func TestHangupsAreNoEndOnceTheyAreWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		e := Env{Stderr: new(bytes.Buffer), Signals: signals, Exit: func(int) { t.Error("exits at a hangup") }}
		ctx, end := e.interruptible(t.Context(), "weir")
		r := Run{Env: e, Context: ctx, end: end}
		hangups := r.Hangups()
		for range 3 {
			signals <- syscall.SIGHUP
			synctest.Wait()
		}
		if ctx.Err() != nil || len(hangups) != 1 {
			t.Errorf("after three hangups: context %v, %d to take; want it to run, 1", ctx.Err(), len(hangups))
		}
		<-hangups
		signals <- syscall.SIGTERM
		synctest.Wait()
		if got := context.Cause(ctx); got != ErrInterrupted {
			t.Errorf("after SIGTERM: cause %v; want %v", got, ErrInterrupted)
		}
		signals <- syscall.SIGHUP // no second interrupt
		synctest.Wait()
		if len(hangups) != 1 {
			t.Error("a hangup after the interrupt got lost")
		}
		end.stop()
	})
}

func TestHangupEndsWhoDoesNotWantIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 1)
		ctx, end := Env{Signals: signals}.interruptible(t.Context(), "weir")
		signals <- syscall.SIGHUP
		synctest.Wait()
		if got := context.Cause(ctx); got != ErrInterrupted {
			t.Errorf("cause %v; want %v", got, ErrInterrupted)
		}
		end.stop()
	})
}
