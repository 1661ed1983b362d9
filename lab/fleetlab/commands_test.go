package fleetlab

import (
	"os"
	"testing"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/resp"
)

const someStats = "# Commandstats\r\n" +
	"cmdstat_evalsha:calls=12,usec=341,usec_per_call=28.42,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_hset:calls=30,usec=3,usec_per_call=0.1,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_info:calls=2,usec=3,usec_per_call=0.1,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_client|tracking:calls=1,usec=3,usec_per_call=0.1,rejected_calls=0,failed_calls=0\r\n"

func TestCommandsLeaveOutWhatScriptsDo(t *testing.T) {
	all := make(Commands)
	parseCommands(someStats, all)
	if got, want := all.String(), "client tracking 1, evalsha 12"; got != want || all.Sum() != 13 {
		t.Errorf("commands = %q, %d; want %q, 13", got, all.Sum(), want)
	}
	before := Commands{"evalsha": 12, "client|tracking": 0}
	if got, want := all.Since(before).String(), "client tracking 1"; got != want {
		t.Errorf("Since = %q; want %q", got, want)
	}
}

func FuzzParseCommands(f *testing.F) {
	f.Add(someStats)
	f.Add("cmdstat_eval:calls=-1")
	f.Add("cmdstat_eval:calls=99999999999999999999,")
	f.Add(":calls=")
	f.Fuzz(func(t *testing.T, text string) {
		all := make(Commands)
		parseCommands(text, all)
		for name := range all {
			if !sent(name) {
				t.Errorf("of %q it counts %q, which no client sends", text, name)
			}
		}
	})
}

// A script that the engine runs counts once, and the commands inside it do not count:
// otherwise the commands per Get would be several times too high.
func TestCommandsAtAnEngine(t *testing.T) {
	if err := engine.Installed("redis"); err != nil {
		if os.Getenv("WEIR_TEST_ENGINES") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s, err := engine.Redis(t.Context(), engine.RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	sampler := NewSampler(s.URL)
	for range 3 {
		if _, err := resp.Ask(t.Context(), s.URL, "EVAL", "redis.call('SET', KEYS[1], 1) return redis.call('INCR', KEYS[1])", "1", "k"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := CommandsAt(t.Context(), s.URL)
	if err != nil || got.Sum() != 3 || got["eval"] != 3 {
		t.Errorf("CommandsAt = %v, %v; want eval 3", got, err)
	}
	if n := sampler.Stop(); n != 3 {
		t.Errorf("a Sampler has %d commands; want 3", n)
	}
}

func TestSamplerCountsAcrossARestart(t *testing.T) {
	if err := engine.Installed("redis"); err != nil {
		if os.Getenv("WEIR_TEST_ENGINES") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s, err := engine.Redis(t.Context(), engine.RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	eval := func(n int) {
		for range n {
			if _, err := resp.Ask(t.Context(), s.URL, "EVAL", "return 1", "0"); err != nil {
				t.Fatal(err)
			}
		}
	}
	eval(5) // before it samples
	sampler := &Sampler{addrs: []string{s.URL}, end: func() {}, last: make(map[string]Commands)}
	sampler.ask(t.Context(), s.URL)
	sampler.total = 0
	eval(2)
	sampler.ask(t.Context(), s.URL)
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eval(4)
	if n := sampler.Stop(); n != 6 {
		t.Errorf("a Sampler has %d commands; want 2 before the restart and 4 after it", n)
	}
}
