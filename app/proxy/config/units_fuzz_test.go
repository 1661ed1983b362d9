package config_test

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/config"
)

// ParseDuration accepts Go's durations with the same value, except numbers without a
// unit, and nothing else. An accepted duration can be written and read back.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{"0", "-0", "0s", "10s", "1h30m", "1.5h", "-5ms", "1d", "60", "1e3s", "5 sec", "9223372036854775807ns", "2562047h47m16.854775807s", "1µs", "1μs", "none", " 1s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := config.ParseDuration(text)
		want, wrong := time.ParseDuration(text)
		bare := regexp.MustCompile(`^[-+]?0$`).MatchString(text)
		if (err == nil) != (wrong == nil && !bare) || err == nil && time.Duration(got) != want {
			t.Fatalf("ParseDuration(%q) = %v, %v; want %v, %v", text, got, err, want, wrong)
		}
		if err != nil {
			if got != 0 || err.Error() == "" {
				t.Errorf("ParseDuration(%q) = %v, %q; want 0 and an error", text, got, err)
			}
			return
		}
		if got == config.None {
			return // -1ns is written as none, but no setting accepts it
		}
		if again, err := config.ParseDuration(got.String()); err != nil || again != got {
			t.Errorf("ParseDuration(%q) = %v, which is read as %v, %v", text, got, again, err)
		}
	})
}

// A size consists of digits and a unit, exact to the byte. An accepted size can be
// written and read back. A suggestion is a valid size.
func FuzzSize(f *testing.F) {
	for _, s := range []string{"0", "1", "64MiB", "512KiB", "1.5GiB", "64MB", "64 MiB", "08", "-1", "+1", "8191PiB", "8388607TiB", "8388608TiB", "9223372036854775807", "9223372036854775808B", "1kib", "KiB", "1BB", "1KiBB", "1e3", "1TiBGiB"} {
		f.Add(s)
	}
	written := regexp.MustCompile(`^(0|[1-9][0-9]*)(B|KiB|MiB|GiB|TiB)?$`)
	powers := map[string]uint{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := config.ParseSize(text)
		var want *big.Int
		if m := written.FindStringSubmatch(text); m != nil {
			n, _ := new(big.Int).SetString(m[1], 10)
			if n.Lsh(n, powers[m[2]]); n.IsInt64() {
				want = n
			}
		}
		if (err == nil) != (want != nil) || err == nil && (want.Int64() != int64(got) || got < 0) {
			t.Fatalf("ParseSize(%q) = %d, %v; want %v", text, got, err, want)
		}
		if err == nil {
			if again, err := config.ParseSize(got.String()); err != nil || again != got {
				t.Errorf("ParseSize(%q) = %v, which is read as %d, %v", text, got, again, err)
			}
			return
		}
		var fault interface{ Error() string }
		if !errors.As(err, &fault) || strings.TrimSpace(fault.Error()) == "" {
			t.Errorf("ParseSize(%q) has no error message", text)
		}
	})
}
