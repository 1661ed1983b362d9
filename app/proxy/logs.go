package proxy

import (
	"io"
	"log"
	"log/slog"

	"github.com/weir-go/weir/app/proxy/access"
	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/plain"
)

// catchStdlibLogs has what net/http says by itself go to a log, for the process: its
// Transport, and HTTP/2 on either side, know of no other logger than the program's.
func catchStdlibLogs(l *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(listen.Complaints(l))
}

// newLogger returns the program's own log, in the format of the access log; the
// combined format is for requests only, so text stands in for it.
func newLogger(w io.Writer, f access.Format, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if f == access.JSON || f == "" {
		return plain.Logger(slog.New(slog.NewJSONHandler(w, o)))
	}
	return plain.Logger(slog.New(slog.NewTextHandler(w, o)))
}
