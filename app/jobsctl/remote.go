package jobsctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/bounded"
)

// Bounds of an exchange with an admin listener. For a list the proxy reads all
// jobs of a queue, and the answer may be MaxLimit jobs with their histories.
const (
	remoteTimeout     = 30 * time.Second
	remoteListTimeout = 5 * time.Minute
	remoteAnswer      = 1 << 30
)

// AdminOptions name the proxy.
type AdminOptions struct {
	URL   string // what ParseAdmin returns
	Token string // empty: none
}

// ParseAdmin reads the address of an admin listener, as a URL or as a proxy is
// given it: host:port. That of all interfaces is this machine.
func ParseAdmin(text string) (string, error) {
	wrong := errors.New("want http://host:port, as weir proxy --admin has it")
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", wrong
	}
	switch {
	case u.User != nil:
		return "", errors.New("wants no user and no password in it: the token is read from --token-file")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("want nothing after the port")
	}
	if addr, err := netip.ParseAddr(u.Hostname()); u.Hostname() == "" || err == nil && addr.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	}
	return u.Scheme + "://" + u.Host, nil
}

// FromAdmin returns the jobs of a proxy. It does not connect yet.
func FromAdmin(o AdminOptions) Source { return newRemote(o) }

func newRemote(o AdminOptions) *remote {
	return &remote{o: o, client: &http.Client{
		Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext, MaxIdleConnsPerHost: atOnce},
		// The token is for nobody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// A remote is the jobs of a proxy, by its admin listener.
type remote struct {
	o      AdminOptions
	client *http.Client
}

var _ Source = (*remote)(nil)

func (r *remote) List(ctx context.Context, q Query) (Page, error) {
	v := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	if q.Limit <= 0 {
		v.Del("limit")
	}
	if q.Queue != "" {
		v.Set("queue", q.Queue)
	}
	if q.ID != "" {
		v.Set("id", q.ID)
	}
	if q.Counts {
		v.Set("counts", "true")
	}
	for _, s := range q.States {
		v.Add("state", s.String())
	}
	var page Page
	ctx, cancel := context.WithTimeout(ctx, remoteListTimeout)
	defer cancel()
	return page, r.ask(ctx, http.MethodGet, "/jobs?"+v.Encode(), &page)
}

// A QueuePage is the answer to what queues there are.
type QueuePage struct {
	Queues []jobs.QueueStatus `json:"queues"`
}

func (r *remote) Queues(ctx context.Context) ([]jobs.QueueStatus, error) {
	var page QueuePage
	err := r.ask(ctx, http.MethodGet, "/jobs/queues", &page)
	return page.Queues, err
}

func (r *remote) Status(ctx context.Context, queue, id string) (j jobs.Status, err error) {
	return j, r.ask(ctx, http.MethodGet, jobPath(queue, id), &j)
}

func (r *remote) Do(ctx context.Context, v Verb, queue, id string) error {
	if v == Drop {
		return r.ask(ctx, http.MethodDelete, jobPath(queue, id), &Outcome{})
	}
	return r.ask(ctx, http.MethodPost, jobPath(queue, id)+"/"+string(v), &Outcome{})
}

func (r *remote) Close() { r.client.CloseIdleConnections() }

func jobPath(queue, id string) string {
	return "/jobs/" + url.PathEscape(queue) + "/" + url.PathEscape(id)
}

// Ask sends a request to an admin listener, with body as JSON if it is not nil, and reads the
// answer into v.
func Ask(ctx context.Context, o AdminOptions, method, target string, body, v any) error {
	r := newRemote(o)
	defer r.Close()
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return r.send(ctx, method, target, sent, v)
}

// ask sends a request and reads the answer into v.
func (r *remote) ask(ctx context.Context, method, target string, v any) error {
	return r.send(ctx, method, target, nil, v)
}

func (r *remote) send(ctx context.Context, method, target string, sent []byte, v any) error {
	if _, bound := ctx.Deadline(); !bound {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, remoteTimeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, r.o.URL+target, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	if sent != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.o.Token)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return r.unreachable(ctx, err)
	}
	defer res.Body.Close()
	body, err := bounded.All(res.Body, remoteAnswer)
	if err != nil {
		return r.unreachable(ctx, err)
	}
	if res.StatusCode != http.StatusOK {
		return r.refused(res, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return r.strange(res, body)
	}
	return nil
}

func (r *remote) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // its text has the method and the whole URL
	}
	return &problem{fmt.Sprintf("%s does not answer (%v): is the address right, and does weir proxy run with --admin there?", r.o.URL, err), jobs.ErrUnavailable}
}

// refused makes an error of an answer that is none of 200.
func (r *remote) refused(res *http.Response, body []byte) error {
	var f Failure
	if err := json.Unmarshal(body, &f); err != nil || f.Error == "" {
		return r.strange(res, body)
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized && r.o.Token == "":
		return &problem{fmt.Sprintf("%s wants its token: --token-file FILE, the one that the proxy has as admin.token_file", r.o.URL), nil}
	case res.StatusCode == http.StatusUnauthorized:
		return &problem{fmt.Sprintf("%s has another token than this --token-file: it is the proxy's admin.token_file", r.o.URL), nil}
	case f.Reason.sentinel() == nil:
		return &problem{fmt.Sprintf("%s: %s", r.o.URL, f.Error), nil}
	}
	return &problem{f.Error, f.Reason.sentinel()}
}

// strange is the error of an answer that is not ours.
func (r *remote) strange(res *http.Response, body []byte) error {
	text := bytes.TrimSpace(body[:min(len(body), 100)])
	return &problem{fmt.Sprintf("%s answers %s, %q: is it the admin listener of a weir proxy that knows jobs?", r.o.URL, res.Status, text), nil}
}
