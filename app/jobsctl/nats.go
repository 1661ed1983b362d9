package jobsctl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/bounded"
)

// connectTimeout bounds the first contact with a server.
const connectTimeout = 5 * time.Second

// NATSOptions say where jobs are kept, and who asks.
type NATSOptions struct {
	URL       string // nats://host:port or tls://host:port, several separated by commas
	Namespace string // empty: jobs.DefaultNamespace
	Token     string
	User      string
	Password  string
	Creds     string // file with credentials
}

// CheckNATS says what is wrong with the URL, without what may be secret in it.
func CheckNATS(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		switch {
		case err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls":
			return errors.New("want nats://host:port or tls://host:port, several separated by commas")
		case u.User != nil:
			return errors.New("wants no user and no password in it, where others can see them: there are --token-file, --user with --password-file, and --creds")
		case u.Path != "" && u.Path != "/" || u.RawQuery != "":
			return errors.New("want nothing after the port")
		}
	}
	return nil
}

// FromNATS connects to the servers that keep a namespace's jobs. It makes
// nothing there, and changes nothing of how they are kept.
func FromNATS(ctx context.Context, o NATSOptions) (Source, error) {
	if o.Namespace == "" {
		o.Namespace = jobs.DefaultNamespace
	}
	nc, err := nats.Connect(o.URL, o.options()...)
	if err != nil {
		return nil, o.explain(err)
	}
	s := natsSource{o: o}
	as, err := o.existing(ctx, nc)
	if err == nil {
		s.Store, err = jobs.Open(ctx, nc, as)
	}
	if err != nil {
		nc.Close()
		return nil, o.explain(err)
	}
	s.replicated = as.Replicas > 1
	s.close = func() {
		_ = s.Store.Close(context.Background()) // nil, as the context does not end
		nc.Close()
	}
	return s, nil
}

// streams begins the names of the streams that package jobs keeps namespaces in.
const streams = "WEIR_JOBS_1_"

// existing returns the options that a namespace was made with. [jobs.Open] makes
// one that is not there, and gives one that is the MaxBytes it is called with;
// who only looks must do neither.
func (o NATSOptions) existing(ctx context.Context, nc *nats.Conn) (jobs.StoreOptions, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return jobs.StoreOptions{}, err
	}
	stream, err := js.Stream(ctx, streams+o.Namespace)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrInvalidStreamName) {
		return jobs.StoreOptions{}, o.missing(ctx, js)
	}
	if err != nil {
		return jobs.StoreOptions{}, err
	}
	c := stream.CachedInfo().Config
	return jobs.StoreOptions{Namespace: o.Namespace, Replicas: c.Replicas, MaxBytes: c.MaxBytes}, nil
}

// missing is the error of a namespace that is not there, with those that are.
func (o NATSOptions) missing(ctx context.Context, js jetstream.JetStream) error {
	var there []string
	for name := range js.StreamNames(ctx).Name() {
		if ns, ours := strings.CutPrefix(name, streams); ours {
			there = append(there, strconv.Quote(ns))
		}
	}
	text := "nor any other: is it the right server?"
	if len(there) > 0 {
		slices.Sort(there)
		text = "but " + Words(there, "and") + ": see --namespace"
	}
	return &problem{fmt.Sprintf("%s has no jobs of namespace %q, %s", o.URL, o.Namespace, text), jobs.ErrNotFound}
}

func (o NATSOptions) options() []nats.Option {
	opts := []nats.Option{
		nats.Name("weir jobs"),
		nats.Timeout(connectTimeout),
		nats.MaxReconnects(-1), // a Watch waits for it
		nats.ReconnectWait(watchEvery),
	}
	switch {
	case o.Creds != "":
		opts = append(opts, Credentials(o.Creds))
	case o.User != "":
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	case o.Token != "":
		opts = append(opts, nats.Token(o.Token))
	}
	return opts
}

// maxCredentials bounds a file with credentials.
const maxCredentials = 64 << 10

// Credentials are those in a file as nsc writes it, read for each connection.
// nats.UserCredentials reads the file whole, whatever it is.
func Credentials(file string) nats.Option {
	read := func() (o nats.Options, err error) {
		text, err := bounded.File(file, maxCredentials)
		if err != nil {
			return o, err
		}
		return o, nats.UserCredentialBytes(text)(&o)
	}
	return nats.UserJWT(
		func() (string, error) {
			o, err := read()
			if err != nil {
				return "", err
			}
			return o.UserJWT()
		},
		func(nonce []byte) ([]byte, error) {
			o, err := read()
			if err != nil {
				return nil, err
			}
			return o.SignatureCB(nonce)
		},
	)
}

// explain says what to do about an error of a server.
func (o NATSOptions) explain(err error) error {
	switch {
	case errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired):
		return &problem{fmt.Sprintf("%s does not let us in (%v): give the right --token-file, --user with --password-file, or --creds", o.URL, err), jobs.ErrUnavailable}
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return &problem{fmt.Sprintf("%s has no JetStream, so it keeps no jobs: is it the right server, or account?", o.URL), err}
	case errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout):
		return &problem{fmt.Sprintf("%s does not answer (%v): is the address right, and does the server run and listen there?", o.URL, err), jobs.ErrUnavailable}
	case gone(err):
		return &problem{fmt.Sprintf("%s: %v", o.URL, err), err}
	}
	return err
}

// A natsSource is a Store at servers, whose errors name them.
type natsSource struct {
	storeSource
	o          NATSOptions
	replicated bool
}

func (s natsSource) List(ctx context.Context, q Query) (Page, error) {
	page, err := s.storeSource.List(ctx, q)
	for i := range page.Jobs {
		s.amend(&page.Jobs[i])
	}
	return page, s.explain(err)
}

func (s natsSource) Queues(ctx context.Context) ([]jobs.QueueStatus, error) {
	all, err := s.storeSource.Queues(ctx)
	return all, s.explain(err)
}

func (s natsSource) Status(ctx context.Context, queue, id string) (jobs.Status, error) {
	j, err := s.storeSource.Status(ctx, queue, id)
	s.amend(&j)
	return j, s.explain(err)
}

// amend takes away what the Store says of durability where it does not know:
// a server alone may flush its writes or not.
func (s natsSource) amend(j *jobs.Status) {
	if !s.replicated {
		j.Durability = 0
	}
}

func (s natsSource) Do(ctx context.Context, v Verb, queue, id string) error {
	return s.explain(s.storeSource.Do(ctx, v, queue, id))
}

func (s natsSource) explain(err error) error {
	if err == nil {
		return nil
	}
	return s.o.explain(err)
}
