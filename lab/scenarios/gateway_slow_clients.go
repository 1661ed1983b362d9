package scenarios

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var gatewaySlowClients = scenario.Scenario{
	Name:    "gateway-slow-clients",
	Title:   "Slow clients occupy the upstream",
	Asks:    "As many clients as the upstream has slots send a byte every 3 s, or do not read their response. Fifty other clients send uncacheable requests to the same upstream. Do they get errors, and how much slower are they?",
	Needs:   []string{"nginx", "caddy"},
	Service: slowClientsService,
	Run:     runSlowClients,
}

// The variants of gateway-slow-clients.
const (
	weirOpen    = "weir, protection off"
	byCaddyMany = "Caddy"
)

// undisturbed is the setting without slow clients.
const undisturbed = "undisturbed"

var slowFronts = []string{weirOpen, shielded, byNginx, byCaddyMany}

func slowClientsService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	if o.Variant == theOrigin {
		return originService(o)
	}
	return proxyService(ctx, o)
}

// slowClients is the scenario while it runs.
type slowClients struct {
	l       *scenario.Lab
	origin  *scenario.Server
	permits int
	attacks []attack
	fronts  []slowFront
}

// A slowFront is a front with its address for HTTP/2.
type slowFront struct {
	front
	http2 string // host:port
}

// slowAttacks are the attacks. All HTTP/2 streams are on one connection, which allows
// 250 of them.
func slowAttacks(l *scenario.Lab) []attack {
	clients, streams := scenario.Size(l, 256, 24), scenario.Size(l, 250, 24)
	drip := scenario.Size(l, 3*time.Second, 100*time.Millisecond)
	var all []attack
	for _, kind := range []string{slowBodies, slowReaders, slowHeads} {
		for _, addresses := range scenario.Size(l, []int{1, 200}, []int{200}) {
			all = append(all, attack{kind: kind, addresses: addresses, clients: clients, drip: drip})
		}
	}
	for _, kind := range []string{slowBodies, slowReaders} {
		all = append(all, attack{kind: kind, addresses: 1, http2: true, clients: streams, drip: drip})
	}
	return all
}

func runSlowClients(ctx context.Context, l *scenario.Lab) error {
	s := slowClients{l: l, permits: scenario.Size(l, 256, 16), attacks: slowAttacks(l)}
	var err error
	if s.origin, err = l.Serve(ctx, theOrigin, originSetup{Wait: 25 * time.Millisecond}); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	rounds := scenario.Size(l, 3, 1) // of the undisturbed load: before, in the middle, and at the end
	for round := range rounds {
		for _, f := range s.fronts {
			if err := s.measure(ctx, f, undisturbed, round+1); err != nil {
				return err
			}
		}
		if round == max(1, rounds-1) {
			break
		}
		part := len(s.attacks) / max(1, rounds-1)
		for _, a := range s.attacks[round*part : (round+1)*part] {
			if err := s.attack(ctx, a); err != nil {
				return err
			}
		}
	}
	s.judge()
	l.Note("The origin takes 50 ms for each request of the others. A request that takes longer than %v counts as failed. A disconnected slow client comes back after %v. "+
		"The slow HTTP/2 streams are on one connection; their bodies have no Content-Length.", s.patience(), comeBack)
	l.Note("Each proxy has a cap of %d calls (weir's default is 256): weir concurrency, nginx max_conns, Caddy unhealthy_request_count. nginx reads request bodies before it calls the origin, "+
		"and writes a response that its client does not read to a file, up to 1 GiB for each, as it does by default. weir and Caddy write no files.", s.permits)
	return nil
}

// start starts the fronts: weir with the settings of its file, the others with the
// same cap.
func (s *slowClients) start(ctx context.Context) error {
	for _, v := range []string{weirOpen, shielded} {
		server, err := s.l.Serve(ctx, v, proxySetup{s.config(v == weirOpen)})
		if err != nil {
			return err
		}
		address, err := server.Control(ctx, "/address")
		if err != nil {
			return err
		}
		s.fronts = append(s.fronts, slowFront{front{variant: v, url: "http://" + string(address), server: server}, string(address)})
	}
	o := engine.ProxyOptions{Upstream: hostOf(s.origin.URL), MaxCalls: s.permits, HTTP2: true}
	nginx, err := s.l.Engine(ctx, byNginx, func(ctx context.Context) (*engine.Server, error) { return engine.NginxCache(ctx, o) })
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(hostOf(nginx.URL))
	if err != nil {
		return err
	}
	caddy, err := s.l.Engine(ctx, byCaddyMany, func(ctx context.Context) (*engine.Server, error) { return engine.Caddy(ctx, o) })
	if err != nil {
		return err
	}
	s.fronts = append(s.fronts,
		slowFront{front{variant: byNginx, url: nginx.URL, engine: nginx}, net.JoinHostPort("127.0.0.2", port)},
		slowFront{front{variant: byCaddyMany, url: caddy.URL, engine: caddy}, hostOf(caddy.URL)})
	return nil
}

// config returns weir's configuration file. At the full size it has the defaults,
// except for what off disables.
func (s *slowClients) config(off bool) string {
	text := fmt.Sprintf("upstreams:\n  - name: origin\n    servers: [%q]\n", s.origin.URL)
	if s.l.Small {
		text += fmt.Sprintf("    concurrency: %d\n    queue_wait: 1s\n", s.permits)
	}
	if off {
		text += "server:\n  read_ahead: none\n  min_rate: none\n  blocked_share: 1\n"
	}
	return text
}

// patience is how long the others wait for a response. At the small size times are
// not judged, so only a rejection is a failure.
func (s *slowClients) patience() time.Duration {
	return scenario.Size(s.l, 3*time.Second, patience)
}

// attack measures the others at each front while the slow clients are connected. At
// the small size nginx and Caddy get no slow readers, because nginx would write a
// gigabyte of files for them.
func (s *slowClients) attack(ctx context.Context, a attack) error {
	for _, f := range s.fronts {
		if s.l.Small && f.server == nil && a.kind == slowReaders {
			continue
		}
		if err := s.under(ctx, a, f); err != nil {
			return err
		}
	}
	return nil
}

func (s *slowClients) under(ctx context.Context, a attack, f slowFront) error {
	address := hostOf(f.url)
	if a.http2 {
		address = f.http2
	}
	s.l.Step("%s at %s", a.name(), f.variant)
	stop, err := a.start(ctx, address)
	if err != nil {
		return err
	}
	defer stop()
	// Until they occupy everything they can. The sockets of 256 readers take gigabytes
	// before a write blocks, and a reader that still takes something is not slow.
	rest(ctx, scenario.Size(s.l, 4*time.Second, 300*time.Millisecond))
	return s.measure(ctx, f, a.name(), 0)
}

func (s *slowClients) measure(ctx context.Context, f slowFront, setting string, round int) error {
	m, err := s.l.Measure(ctx, s.origin, scenario.Job{
		Variant: f.variant, Setting: setting, Round: round, Beside: f.beside(),
		Load: load.Spec{
			URLs:       workURLs(f.front, "private", scenario.Size(s.l, 5000, 500)),
			Clients:    scenario.Size(s.l, 50, 8),
			Duration:   scenario.Size(s.l, 5*time.Second, 500*time.Millisecond),
			Timeout:    s.patience(),
			ExpectBody: originSays,
		},
	})
	if err != nil {
		return err
	}
	if setting == undisturbed {
		s.l.Check(fmt.Sprintf("%s, %s, round %d: no request fails", f.variant, setting, round), m.Good > 0 && m.Failures == 0, "%d of %d; %s", m.Failures, m.Requests, m.FirstFailure)
	}
	return nil
}

func (s *slowClients) judge() {
	failed := result.Table{Title: "Requests of the others that fail, in percent", Head: slices.Concat([]string{""}, slowFronts)}
	slowest := result.Table{Title: "p99 of the others' good responses, in ms", Head: failed.Head}
	told := result.Table{Title: "What weir does with the slow clients", Head: []string{"", "bodies read ahead", "cut above the blocked share", "cut below the minimum rate"}}
	settings := []string{undisturbed}
	for _, a := range s.attacks {
		settings = append(settings, a.name())
		s.judgeAttack(a)
	}
	for _, setting := range settings {
		shares, times := []string{setting}, []string{setting}
		for _, v := range slowFronts {
			share, p := "", ""
			if len(s.l.Measurements(v, setting)) > 0 {
				m := medianOf(s.l, v, setting)
				share = valueOf(failedShare(m), 1)
				if m.Good > 0 {
					p = valueOf(p99(m), 1)
				}
			}
			shares, times = append(shares, share), append(times, p)
		}
		failed.Cells, slowest.Cells = append(failed.Cells, shares), append(slowest.Cells, times)
		m := medianOf(s.l, shielded, setting)
		told.Cells = append(told.Cells, []string{setting, valueOf(m.Values[readAhead], 0), valueOf(m.Values[cutBlocked], 0), valueOf(m.Values[cutSlow], 0)})
	}
	s.l.Table(failed)
	s.l.Table(slowest)
	s.l.Table(told)
}

// failedShare is the share of failed requests, in percent.
func failedShare(m result.Measurement) float64 {
	return 100 * float64(m.Failures) / float64(max(1, m.Requests))
}

func (s *slowClients) judgeAttack(a attack) {
	off, on := medianOf(s.l, weirOpen, a.name()), medianOf(s.l, shielded, a.name())
	calm, calmOff := medianOf(s.l, shielded, undisturbed), medianOf(s.l, weirOpen, undisturbed)
	s.l.Check("weir, "+a.name()+": no other client gets 503 or another failure", on.Good > 0 && on.Failures == 0,
		"%d with 503, %d failed of %d; %s", on.Statuses[http.StatusServiceUnavailable], on.Failures, on.Requests, on.FirstFailure)
	s.l.CheckTime("weir, "+a.name()+": p99 at most twice the undisturbed one", p99(on) <= 2*p99(calm), "%.1f ms; undisturbed %.1f ms", p99(on), p99(calm))
	if a.kind != slowHeads { // these occupy no slot at the upstream
		// The 250 HTTP/2 streams leave six of the default's slots to others.
		hurt := off.Failures > 0 || !s.l.Small && p99(off) > 2*p99(calmOff)
		s.l.Check("weir, protection off, "+a.name()+": the others suffer", hurt, "%d failed of %d, p99 %.1f ms", off.Failures, off.Requests, p99(off))
	}
	s.l.Row(result.NewRow("requests of others that fail: "+a.name(), "%", result.Lower).Here(failedShare(off), failedShare(on)))
}
