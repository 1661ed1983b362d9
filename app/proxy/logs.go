package proxy

import (
	"io"
	"log"
	"log/slog"

	"github.com/weir-go/weir/app/proxy/access"
	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/plain"
)

// catchStdlibLogs redirects the standard library's default logger to l, for the whole
// process: the Transport of net/http, and HTTP/2 on either side, can use no other
// logger.
func catchStdlibLogs(l *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(listen.Complaints(l))
}

// newLogger returns the program's own logger, in the format of the access log. The
// combined format is for requests only; text is used instead.
func newLogger(w io.Writer, f access.Format, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if f == access.JSON || f == "" {
		return plain.Logger(slog.New(slog.NewJSONHandler(w, o)))
	}
	return plain.Logger(slog.New(slog.NewTextHandler(w, o)))
}
