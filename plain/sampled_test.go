package plain_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/plain"
)

// lines returns the lines that a sampled logger of that level writes, without their time.
func lines(level slog.Level, log func(l *slog.Logger)) []string {
	var b bytes.Buffer
	h := slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	log(plain.Sampled(slog.New(h), "guard"))
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func TestSampledWritesTenLinesASecondOfEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := lines(slog.LevelInfo, func(l *slog.Logger) {
			for range 3000 {
				l.Warn("failed", "guard", "users")
				time.Sleep(time.Millisecond)
			}
			l.Warn("failed", "guard", "shops")
			l.With("x", 1).Error("failed", "guard", "users")
			time.Sleep(time.Second)
			l.Warn("failed", "guard", "users")
		})
		if len(got) != 3*10+3 {
			t.Fatalf("%d lines; want 33", len(got))
		}
		for i, want := range map[int]string{
			0:  "level=WARN msg=failed guard=users",
			10: "level=WARN msg=failed guard=users left_out=990",
			11: "level=WARN msg=failed guard=users",
			30: "level=WARN msg=failed guard=shops",
			31: "level=ERROR msg=failed x=1 guard=users",
			32: "level=WARN msg=failed guard=users left_out=990",
		} {
			if got[i] != want {
				t.Errorf("line %d: %s; want %s", i, got[i], want)
			}
		}
	})
}

func TestSampledLeavesNothingOutAtDebug(t *testing.T) {
	got := lines(slog.LevelDebug, func(l *slog.Logger) {
		for range 100 {
			l.Warn("failed", "guard", "users")
		}
	})
	if len(got) != 100 {
		t.Errorf("%d lines; want 100", len(got))
	}
}

// A logger holds a bounded number of counts, however many subjects there are.
func TestSampledCountsTheRestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := lines(slog.LevelInfo, func(l *slog.Logger) {
			for i := range 5000 {
				l.Warn("failed", "guard", fmt.Sprint(i))
			}
		})
		if len(got) != 1024+10 {
			t.Errorf("%d lines; want 1024, and 10 of all others", len(got))
		}
	})
}
