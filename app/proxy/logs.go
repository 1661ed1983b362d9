package proxy

import (
	"io"
	"log/slog"

	"github.com/weir-go/weir/app/proxy/access"
)

// newLogger returns the program's own log, in the format of the access log; the
// combined format is for requests only, so text stands in for it.
func newLogger(w io.Writer, f access.Format, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if f == access.JSON || f == "" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
