package otlp

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// Variables that the SDK cannot parse are logged, without their values.
func TestNothingSecretOfTheVariablesIsLogged(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS":         "hunter2 without an equals sign",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS":  "authorization=Bearer%zzhunter2",
		"OTEL_EXPORTER_OTLP_METRICS_HEADERS": "hunter2 =x",
		"OTEL_EXPORTER_OTLP_ENDPOINT":        "http://weir:hunter2@[::1",
		"OTEL_EXPORTER_OTLP_TIMEOUT":         "hunter2",
		"OTEL_METRIC_EXPORT_INTERVAL":        "hunter2",
		"OTEL_BSP_SCHEDULE_DELAY":            "hunter2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			var log bytes.Buffer
			e, err := Start(t.Context(), Options{
				Metrics: true, Traces: true, Interval: time.Hour, Instance: "x",
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.Level(-10)})),
			})
			if err == nil {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_ = e.Close(ctx) // there is no receiver for the remaining data
			} else {
				log.WriteString(err.Error())
			}
			if log.Len() == 0 {
				t.Error("nothing is logged; want a line about the error")
			}
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "hunter2") || strings.Contains(line, "%zz") {
					t.Errorf("the log contains the value: %s", line)
				}
			}
		})
	}
}

// The log describes what is wrong, without the input.
func TestTheLogOfTheSDKSaysWhatIsWrong(t *testing.T) {
	var log bytes.Buffer
	l := logr.FromSlogHandler(discreet{slog.NewTextHandler(&log, nil)}).WithName("sdk").WithValues("token", "hunter2")
	l.Error(&fs.PathError{Op: "open", Path: "ca.pem", Err: fs.ErrNotExist}, "read tls ca cert file", "file", "ca.pem", "count", 3)
	l.Error(errors.New("missing '="), "parse headers", "input", "hunter2")
	text := log.String()
	for _, want := range []string{"read tls ca cert file", "open ca.pem: file does not exist", "count=3", "parse headers", "missing '=", notShown} {
		if !strings.Contains(text, want) {
			t.Errorf("the log is %s; want %q in it", text, want)
		}
	}
	if strings.Contains(text, "hunter2") {
		t.Errorf("the log is %s", text)
	}
}
