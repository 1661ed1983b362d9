package listen_test

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/plain/plaintest"
)

// Messages of net/http are logged with escapes, truncated if they are long, and without
// the unasked bytes of a server or the user in a URL.
func TestH21_MessagesOfNetHTTPArePlain(t *testing.T) {
	type row struct{ given, want string }
	rows := []row{
		{"protocol error: received DATA after END_STREAM\n", "protocol error: received DATA after END_STREAM"},
		{`Unsolicited response received on idle HTTP channel starting with "HTTP/1.1 200 OK\r\n\r\nsesame; err=sesame"; err=<nil>`, `"msg":"Unsolicited response received on idle HTTP channel",`},
		{`Unsolicited response received on idle HTTP channel starting with "sesame"; err=EOF`, `"msg":"Unsolicited response received on idle HTTP channel; err=EOF",`},
		{"http2: Transport failed to get client conn for http://me:sesame@h.test", "http://…@h.test"},
		{"http: panic serving 192.0.2.1:1: " + strings.Repeat("x", 100_000), strings.Repeat("x", 1000)},
		{strings.Repeat("\u202e", 100_000), `\\u202e`},
		{"net/http: invalid Cookie.Domain " + strings.Repeat("é", 100_000), "…"},
	}
	for _, k := range plaintest.Kinds {
		rows = append(rows, row{"http2: invalid header: a" + k.Hidden + "b", "a" + strings.ReplaceAll(k.Shown, `\`, `\\`) + "b"})
	}
	for _, tt := range rows {
		var b bytes.Buffer
		l := log.New(listen.Complaints(slog.New(slog.NewJSONHandler(&b, nil))), "", 0)
		l.Print(tt.given)
		line := b.String()
		if found := plaintest.Find(line); found != "" || strings.Contains(line, "sesame") || !strings.Contains(line, tt.want) || strings.Count(line, "\n") != 1 {
			t.Errorf("%.200q is logged as %.400q, found %q; want %.100q", tt.given, line, found, tt.want)
		}
		if most := 2*listen.MaxComplaint + 200; len(line) > most { // a backslash becomes two in JSON
			t.Errorf("%.100q is logged with %d bytes; want at most %d", tt.given, len(line), most)
		}
	}
}

// A client that causes messages can neither fill the log nor suppress a panic. The
// number of dropped messages is logged.
func TestH21_MessagesOfNetHTTPAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := log.New(listen.Complaints(slog.New(slog.NewTextHandler(&b, nil))), "", 0)
		for i := range 1000 {
			l.Print("protocol error ", i)
		}
		l.Print("http: panic serving 192.0.2.1:1: oh")
		if n := strings.Count(b.String(), "protocol error"); n != listen.ComplaintsPerSecond || strings.Count(b.String(), "level=ERROR") != 1 {
			t.Errorf("of 1000 messages and a panic %d and %d are logged; want %d and the panic", n, strings.Count(b.String(), "level=ERROR"), listen.ComplaintsPerSecond)
		}
		time.Sleep(time.Second)
		b.Reset()
		l.Print("protocol error again")
		l.Print("protocol error again")
		if want := fmt.Sprintf("messages=%d", 1000-listen.ComplaintsPerSecond); strings.Count(b.String(), want) != 1 || strings.Count(b.String(), "again") != 2 {
			t.Errorf("a second later: %s; want %s once, and both messages", b.String(), want)
		}
	})
}
