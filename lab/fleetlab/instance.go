package fleetlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-go/weir"
)

// InstanceOptions configure an Instance. Their times are nanoseconds in JSON.
type InstanceOptions struct {
	Name   string // in its answers, and at the source
	Source string // URL of the Source, without a trailing slash

	TTL, StaleWhileRevalidate, StaleIfError time.Duration

	// LoadTimeout bounds a load. 0: weir's default.
	LoadTimeout time.Duration

	// Engine is the engine of the instances' tier. Without addresses there is no
	// fleet: each instance has only its own memory and flights.
	Engine           Engine
	Lease, MemoryCap time.Duration // 0: weir's defaults
	Pushes           bool          // values are pushed
}

// options returns the options of the Guard, except for its Fleet.
func (o InstanceOptions) options() weir.Options {
	return weir.Options{
		Name: "fleetlab", TTL: o.TTL, StaleWhileRevalidate: o.StaleWhileRevalidate, StaleIfError: o.StaleIfError,
		LoadTimeout: o.LoadTimeout,
	}
}

// An Instance is one instance of a service: a Guard in front of the Source, over
// HTTP.
//
//	GET  /get/KEY          an Answer
//	POST /invalidate/KEY   for all instances
type Instance struct {
	*Member
	name   string
	source string
	client *http.Client
}

// NewInstance returns an Instance. Close ends it.
func NewInstance(o InstanceOptions) (*Instance, error) {
	i := &Instance{
		name: o.Name, source: o.Source,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
	}
	var err error
	i.Member, err = Join(o, i.load)
	return i, err
}

// Close closes the Instance and cancels its loads.
func (i *Instance) Close() error {
	i.client.CloseIdleConnections()
	return i.Member.Close()
}

// load queries the Source.
func (i *Instance) load(ctx context.Context, key string) (Answer, error) {
	var a Answer
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.source+"/load/"+key+"?by="+url.QueryEscape(i.name), nil)
	if err != nil {
		return a, err
	}
	resp, err := i.client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	if resp.StatusCode != http.StatusOK {
		return a, fmt.Errorf("the source says %s", resp.Status)
	}
	return a, json.Unmarshal(body, &a)
}

// ServeHTTP handles the requests listed above.
func (i *Instance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch what {
	case "get":
		res := i.Guard.GetResult(r.Context(), key)
		if res.Err != nil {
			i.failed(w, res.Err)
			return
		}
		a := res.Value
		a.Instance, a.From = i.name, from(res)
		writeAnswer(w, a)
	case "invalidate":
		if err := i.Guard.Invalidate(r.Context(), key); err != nil {
			i.failed(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		http.NotFound(w, r)
	}
}

// from describes where an answer came from.
func from(r weir.Result[Answer]) string {
	return r.Source.String() + ", " + r.State.String()
}

// failed responds with an error that begins with the instance's name.
func (i *Instance) failed(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusGatewayTimeout
	}
	http.Error(w, i.name+": "+err.Error(), status)
}
