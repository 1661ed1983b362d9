package scenarios

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir/lab/model"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var modelStampede = scenario.Scenario{
	Name:    "model-stampede",
	Title:   "A stampede on a model server",
	Asks:    "Three hundred clients send prompts to a model, and many send the same. The model runs 8 completions at once, limits tokens per minute, bills tokens, and now and then ends a stream in the middle. How many completions does it run, what do they cost, how long do clients wait for the first event, and does a client get a wrong or truncated answer?",
	Needs:   []string{"nginx"},
	Service: modelService,
	Run:     runModelStampede,
}

// The settings, and the names of the model's counts.
const (
	streamed  = "streams"
	documents = "whole answers"

	tokensBilled = "tokens billed"
	streamsCut   = "streams that the model ended in the middle"
)

// theModel is the service behind the fronts.
const theModel = "model"

// A modelCrowd is the load on the model, and the model.
type modelCrowd struct {
	readCrowd
	Model model.Options
	Price float64 // of a million tokens, in dollars
}

func modelService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	if o.Variant != theModel {
		return proxyService(ctx, o)
	}
	var options model.Options
	if err := o.Decode(&options); err != nil {
		return nil, err
	}
	meter := new(scenario.Meter)
	s := model.New(options, meter.Begin)
	return &scenario.Service{
		Handler: s,
		Meter:   meter,
		Reset:   func(context.Context) error { s.Reset(); return nil },
		Values: func() map[string]float64 {
			return map[string]float64{tokensBilled: float64(s.Usage().Tokens), streamsCut: float64(s.Usage().GaveUp)}
		},
	}, nil
}

func runModelStampede(ctx context.Context, l *scenario.Lab) error {
	c := scenario.Size(l,
		modelCrowd{
			readCrowd: readCrowd{Clients: 300, Each: 5, Keys: 100, Skew: 1, Tries: 3, Deadline: time.Minute},
			Model:     model.Options{First: 300 * time.Millisecond, Token: 20 * time.Millisecond, Slots: 8, TokensPerMinute: 5000, GiveUp: 20},
			Price:     10,
		},
		modelCrowd{
			readCrowd: readCrowd{Clients: 30, Each: 3, Keys: 10, Skew: 1, Tries: 3, Deadline: time.Minute},
			Model:     model.Options{First: 20 * time.Millisecond, Token: time.Millisecond, Slots: 4, TokensPerMinute: 100_000, GiveUp: 4},
			Price:     10,
		})
	origin, err := l.Serve(ctx, theModel, c.Model)
	if err != nil {
		return err
	}
	for round := range scenario.Size(l, 2, 1) {
		for _, setting := range []string{streamed, documents} {
			if setting == documents && round > 0 {
				continue
			}
			for _, variant := range []string{unprotected, byNginx, shielded} {
				m, err := c.trial(origin, variant, setting, round+1).measure(ctx, l)
				if err != nil {
					return err
				}
				checkReads(l, m)
			}
		}
	}
	wrong, err := c.trial(origin, mistaken, streamed, 1).measure(ctx, l)
	if err != nil {
		return err
	}
	l.Check(mistaken+": the lab notices wrong answers", wrong.Values[wrongBodies] > 0, "%.0f of %d", wrong.Values[wrongBodies], wrong.Requests)
	c.judge(l)
	return nil
}

// trial returns the measurement of a front.
func (c modelCrowd) trial(origin *scenario.Server, variant, setting string, round int) readTrial {
	var reads [2][]bodyRead
	for spelling := range reads {
		for key := range c.Keys {
			reads[spelling] = append(reads[spelling], c.request(key, spelling, setting == streamed))
		}
	}
	ignored := "/user"
	if variant == mistaken {
		ignored = "/messages"
	}
	h := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer lab"}}
	return readTrial{
		origin: origin, variant: variant, setting: setting, round: round, config: c.weir(origin.URL, ignored),
		send: func(ctx context.Context, url string) (result.Measurement, error) {
			return c.send(ctx, url+"/v1/chat/completions", h, func(client, key int) bodyRead { return reads[client%2][key] })
		},
	}
}

// request returns the request for a prompt. Half of the clients write it like OpenAI's
// Python library, and half like the one for Node: the order of members and the form of
// numbers differ.
func (c modelCrowd) request(key, spelling int, stream bool) bodyRead {
	prompt := fmt.Sprintf("You answer questions about the mill. Question %d: what turns its wheel, and what holds the water back?", key)
	options := ""
	if stream {
		options = `,"stream":true,"stream_options":{"include_usage":true}`
	}
	body := fmt.Appendf(nil, `{"messages":[{"role":"user","content":%q}],"model":"lab","max_tokens":64,"temperature":0.0%s}`, prompt, options)
	if spelling == 1 {
		body = fmt.Appendf(nil, `{"model":"lab","temperature":0,"max_tokens":64,"messages":[{"role":"user","content":%q}]%s}`, prompt, options)
	}
	want, err := model.Response(body)
	if err != nil {
		panic(err) // the request is ours
	}
	return bodyRead{body, want}
}

// weir returns the configuration of weir proxy, without its listener: that of the how-to,
// with a budget a tenth below the model's.
func (c modelCrowd) weir(upstream, ignored string) string {
	return fmt.Sprintf(`
upstreams:
  - name: model
    servers: [%s]
    concurrency: %d
    queue_wait: 5m
    cost:
      bytes_per_unit: 4
      field: /max_tokens
      default: 1000
      usage: /usage/total_tokens
    budget: {units: %d, per: 1m, queue_wait: 5m}
routes:
  - name: completions
    path: =/v1/chat/completions
    methods: [POST]
    timeout: 5m
    reads:
      - types: [application/json]
        compare: json
        only_if: ["/temperature = 0 or absent"]
        ignore: [%s]
    cache:
      ttl: 10m
      vary: [Authorization]
    events:
      share: true
      ttl: 10m
      end: "[DONE]"
      as_calls: true
`, upstream, c.Model.Slots, c.Model.TokensPerMinute*9/10, ignored)
}

// judge records the checks and rows that compare variants.
func (c modelCrowd) judge(l *scenario.Lab) {
	const tokens, dollars = "tokens billed", "cost, $"
	for _, setting := range []string{streamed, documents} {
		l.Table(readTable(l, setting, "completions", map[string]func(result.Measurement) string{
			tokens:  func(m result.Measurement) string { return valueOf(m.Values[tokensBilled], 0) },
			dollars: func(m result.Measurement) string { return valueOf(m.Values[tokensBilled]*c.Price/1e6, 4) },
		}, tokens, dollars))
		for _, m := range l.Measurements(shielded, setting) {
			name := fmt.Sprintf("weir, %s, round %d", setting, m.Round)
			most := int64(c.Keys) + int64(m.Values[streamsCut])
			l.Check(name+": at most one completion for each prompt and each stream that the model ended in the middle",
				m.Source.Calls <= most, "%d, at most %d", m.Source.Calls, most)
			l.Check(fmt.Sprintf("%s: at most %d completions at once", name, c.Model.Slots), m.Source.Most <= c.Model.Slots, "%d", m.Source.Most)
			if setting == documents {
				l.Check(name+": weir counts the tokens that the model bills", m.Values[unitsSpent] == m.Values[tokensBilled],
					"%.0f, billed %.0f", m.Values[unitsSpent], m.Values[tokensBilled])
			}
		}
		before, after := medianOf(l, unprotected, setting), medianOf(l, shielded, setting)
		l.Row(result.NewRow("requests answered, "+setting+", without weir → weir", "answers", result.Higher).Here(float64(before.Good), float64(after.Good)))
		l.Row(result.NewRow("requests answered, "+setting+", nginx → weir", "answers", result.Higher).Here(float64(medianOf(l, byNginx, setting).Good), float64(after.Good)))
		l.Row(result.NewRow("tokens billed per answer, "+setting+", without weir → weir", "tokens", result.Lower).
			Here(before.Values[tokensBilled]/max(1, float64(before.Good)), after.Values[tokensBilled]/max(1, float64(after.Good))))
		l.Row(result.NewRow("429 that clients see, "+setting+", without weir → weir", "answers", result.Lower).Here(before.Values[tooMany], after.Values[tooMany]))
	}
	var cut float64
	for _, m := range l.Measurements(unprotected, streamed) {
		cut += m.Values[cutAnswers]
	}
	l.Check("without weir: the lab notices truncated streams", cut > 0, "%.0f", cut)
	l.Note("A client tries a request %d times if it gets 429, a 5xx or a broken transfer, after the time in Retry-After or after %v and twice that, like OpenAI's libraries. "+
		"One stream in %d ends in the middle, as if it were complete: a client cannot see that in the HTTP response. "+
		"Prompts are drawn by Zipf (%g) from %d; %d clients send %d requests each. The model takes %v to the first token and %v for each further one.",
		c.Tries, firstWait, c.Model.GiveUp, c.Skew, c.Keys, c.Clients, c.Each, c.Model.First, c.Model.Token)
	l.Note("The cost is that of %g $ for a million tokens. Fewer tokens without weir are not a saving: most requests were refused. Only whole and right answers count as answered.", c.Price)
	l.Note("\"%s\" is a mistake in the configuration, made on purpose: it shows that the lab notices wrong answers.", mistaken)
}
