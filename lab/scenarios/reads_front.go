package scenarios

import (
	"context"
	"fmt"
	"strings"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

// mistaken is weir with a mistake in its configuration, which the checks must notice.
const mistaken = "weir, with the bodies' meaning ignored"

// A readTrial is a measurement of a front before an origin.
type readTrial struct {
	origin  *scenario.Server
	variant string
	setting string
	round   int
	config  string // of weir, without its listener
	send    func(ctx context.Context, url string) (result.Measurement, error)
}

// measure starts the front, sends the load, and stops the front.
func (t readTrial) measure(ctx context.Context, l *scenario.Lab) (result.Measurement, error) {
	job := scenario.Job{Variant: t.variant, Setting: t.setting, Round: t.round}
	url := t.origin.URL
	switch t.variant {
	case byNginx:
		e, err := l.Engine(ctx, byNginx, func(ctx context.Context) (*engine.Server, error) {
			return engine.Nginx(ctx, engine.NginxOptions{Config: nginxForReads(hostOf(t.origin.URL))})
		})
		if err != nil {
			return result.Measurement{}, err
		}
		defer e.Stop() //nolint:errcheck // its measurement is over
		url = e.URL
	case shielded, mistaken:
		s, err := l.Serve(ctx, t.variant, proxySetup{t.config})
		if err != nil {
			return result.Measurement{}, err
		}
		defer s.Stop() //nolint:errcheck // its measurement is over
		address, err := s.Control(ctx, "/")
		if err != nil {
			return result.Measurement{}, err
		}
		job.Beside = []*scenario.Server{s}
		url = "http://" + string(address)
	}
	return l.MeasureBy(ctx, t.origin, job, func(ctx context.Context) (result.Measurement, error) { return t.send(ctx, url) })
}

// nginxForReads returns the http block of nginx with a cache for POST. Its
// client_body_buffer_size holds every body: $request_body is empty for a larger one, and
// so all larger ones would have one key. The rest has nginx's defaults.
func nginxForReads(upstream string) func(listen string) string {
	return func(listen string) string {
		return strings.NewReplacer("LISTEN", listen, "UPSTREAM", upstream).Replace(`
proxy_cache_path cache levels=1:2 keys_zone=answers:32m use_temp_path=off;
upstream origin {
	server UPSTREAM;
	keepalive 64;
}
server {
	listen LISTEN backlog=4096;
	location / {
		proxy_pass http://origin;
		proxy_http_version 1.1;
		proxy_set_header Connection "";
		client_body_buffer_size 128k;
		client_max_body_size 128k;
		proxy_cache answers;
		proxy_cache_methods GET HEAD POST;
		proxy_cache_key "$request_method$request_uri$request_body";
		proxy_cache_valid 200 10m;
		proxy_ignore_headers Cache-Control;
		proxy_cache_lock on;
	}
}
`)
	}
}

// readTable compares the variants under a setting. costs are further columns.
func readTable(l *scenario.Lab, setting, calls string, costs map[string]func(result.Measurement) string, order ...string) result.Table {
	table := result.Table{Title: setting, Head: append(append([]string{"", calls}, order...),
		"answered", "429", "broken", "truncated", "wrong", "first event p50, ms", "p99, ms")}
	for _, v := range []string{unprotected, byNginx, shielded} {
		m := medianOf(l, v, setting)
		row := []string{v, fmt.Sprint(m.Source.Calls)}
		for _, name := range order {
			row = append(row, costs[name](m))
		}
		table.Cells = append(table.Cells, append(row, fmt.Sprintf("%d of %d", m.Good, m.Requests),
			valueOf(m.Values[tooMany], 0), valueOf(m.Values[brokenAnswers], 0), valueOf(m.Values[cutAnswers], 0), valueOf(m.Values[wrongBodies], 0),
			valueOf(m.Values[firstEventP50], 0), valueOf(m.Values[firstEventP99], 0)))
	}
	return table
}
