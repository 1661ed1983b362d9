package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// Gateway returns the gateway.Config for c, with a new cache; use the old cache for an
// Update. It reads the files that c names, and its error joins their faults.
func (c *Config) Gateway() (gateway.Config, error) {
	g, err := c.gateway()
	if err != nil {
		return gateway.Config{}, err
	}
	g.Cache, err = weirhttp.NewCache(int64(c.Cache.Memory))
	return g, err
}

// gateway is like Gateway, without a cache.
func (c *Config) gateway() (gateway.Config, error) {
	var g gateway.Config
	convert(root, reflect.ValueOf(c).Elem(), reflect.ValueOf(&g).Elem())
	var errs []error
	for i := range c.Upstreams {
		t, err := c.Upstreams[i].TLS.tlsConfig()
		if err != nil {
			errs = append(errs, fmt.Errorf("upstreams[%d].tls: %w", i, err))
		}
		g.Upstreams[i].TLS = t
		if s := c.Upstreams[i].Sticky; s != nil && s.KeyFile != "" {
			key, err := readSecret(s.KeyFile)
			if err == nil && len(key) < 16 {
				err = errors.New("must have a line of at least 16 bytes")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("upstreams[%d].sticky.key_file: %s %w", i, s.KeyFile, err))
			}
			g.Upstreams[i].Sticky.Key = []byte(key)
		}
		for j, server := range c.Upstreams[i].Servers {
			g.Upstreams[i].Servers = append(g.Upstreams[i].Servers, server.URL)
			if server.Weight == 0 {
				g.Upstreams[i].ServerSettings[j].Weight = -1 // the gateway's value for a drained server
			}
		}
	}
	for i := range c.Routes {
		r := &c.Routes[i]
		g.Routes[i].Observe = r.Observe || c.Observe
		if r.HotKeys == 0 {
			g.Routes[i].HotKeys = -1 // the gateway's value for none
		}
		if r.Rate != nil {
			g.Routes[i].RateBy = r.Rate.By
		}
		for name, file := range r.Request.SetFrom {
			value, err := readHeader(file)
			if err != nil {
				errs = append(errs, fmt.Errorf("routes[%d].request.set_from_file.%s: %s %w", i, name, file, err))
				continue
			}
			if g.Routes[i].SetRequest == nil {
				g.Routes[i].SetRequest = http.Header{}
			}
			g.Routes[i].SetRequest[name] = []string{value}
		}
	}
	g.ErrorHandler = c.errorPages(func(page int, setting, value string, err error) {
		errs = append(errs, fmt.Errorf("error_pages[%d].%s: %s %w", page, setting, value, err))
	}).Handler()
	for _, text := range c.TrustedProxies {
		p, err := parseNetwork(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("trusted_proxies: %q: %w", text, err))
		}
		g.TrustedProxies = append(g.TrustedProxies, p)
	}
	return g, errors.Join(errs...)
}

// readHeader reads a header's value from a file.
func readHeader(file string) (string, error) {
	value, err := readSecret(file)
	if err != nil {
		return "", err
	}
	return value, checkHeaderValue(value)
}

var typeTLS = reflect.TypeFor[*tls.Config]()

// convert copies the fields of a struct to the gateway's fields that their tags name.
func convert(fields []*field, from, to reflect.Value) {
	for _, f := range fields {
		v := from.Field(f.index)
		if f.gw == "" {
			if f.isSection() && v.Kind() == reflect.Struct {
				convert(f.fields, v, to)
			}
			continue
		}
		name, not := strings.CutPrefix(f.gw, "!")
		target := to
		for part := range strings.SplitSeq(name, ".") {
			target = target.FieldByName(part)
		}
		switch {
		case target.Type() == typeTLS: // built from files
		case not:
			target.SetBool(!v.Bool())
		case f.isSection() && v.Kind() == reflect.Pointer:
			if !v.IsNil() {
				target.Set(reflect.New(target.Type().Elem()))
				convert(f.fields, v.Elem(), target.Elem())
			}
		case f.isSection():
			convert(f.fields, v, target)
		case f.fields != nil:
			target.Set(reflect.MakeSlice(target.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				convert(f.fields, v.Index(i), target.Index(i))
			}
		default:
			target.Set(f.toGateway(v, target.Type()))
		}
	}
}

var failureModes = map[string]quota.FailureMode{
	"open": quota.FailOpen, "closed": quota.FailClosed, "local_share": quota.FailLocalShare,
}

var pathMatches = map[string]gateway.PathMatch{
	"sent": gateway.MatchSent, "normalized": gateway.MatchNormalized, "caseless": gateway.MatchCaseless,
}

var fairs = map[Choice]gateway.Fair{"client": gateway.FairClient, "none": gateway.FairNone}

var coalescings = map[Choice]gateway.Coalesce{
	"true": gateway.CoalesceProven, "any_client": gateway.CoalesceAnyClient, "false": gateway.CoalesceNone,
}

var replays = map[string]weirhttp.Replay{"fast": weirhttp.ReplayFast, "paced": weirhttp.ReplayPaced}

var priorities = map[string]limit.Priority{
	"background": limit.Background, "low": limit.Low, "normal": limit.Normal, "high": limit.High,
}

// toGateway converts one value to the gateway's type.
func (f *field) toGateway(v reflect.Value, t reflect.Type) reflect.Value {
	switch value := v.Interface().(type) {
	case Fields:
		return reflect.ValueOf(http.Header(maps.Clone(value)))
	case []string:
		if f.form == "condition" {
			return reflect.ValueOf(conditions(value))
		}
		list := slices.Clone(value)
		if strings.Contains(f.form, "field") {
			for i, name := range list {
				list[i] = http.CanonicalHeaderKey(name)
			}
		}
		return reflect.ValueOf(list)
	case []Choice:
		var list []string
		for _, one := range value {
			list = append(list, string(one))
		}
		return reflect.ValueOf(list)
	case []int:
		return reflect.ValueOf(slices.Clone(value))
	case string:
		if t == reflect.TypeFor[limit.Priority]() {
			return reflect.ValueOf(priorities[value])
		}
		if t == reflect.TypeFor[gateway.PathMatch]() {
			return reflect.ValueOf(pathMatches[value])
		}
		if t == reflect.TypeFor[weirhttp.UnknownOutcome]() {
			return reflect.ValueOf(unknownOutcomes[value])
		}
		if t == reflect.TypeFor[weirhttp.Replay]() {
			return reflect.ValueOf(replays[value])
		}
		if t == reflect.TypeFor[weirhttp.DurationUnit]() {
			return reflect.ValueOf(durationUnits[value])
		}
		if t == reflect.TypeFor[weirhttp.Compare]() {
			return reflect.ValueOf(comparisons[value])
		}
		if t == reflect.TypeFor[quota.FailureMode]() {
			return reflect.ValueOf(failureModes[value])
		}
	case Choice:
		if t == reflect.TypeFor[gateway.Fair]() {
			return reflect.ValueOf(fairs[value])
		}
		return reflect.ValueOf(coalescings[value])
	case Factor:
		if value == None {
			v = reflect.ValueOf(f.gatewayNone())
		}
	case Duration, Size, Count:
		if v.Int() == None {
			v = reflect.ValueOf(f.gatewayNone())
		}
	}
	return v.Convert(t)
}

// gatewayAddresses maps the gateway's paths, within an upstream or a route or at the top,
// to settings.
func gatewayAddresses(fields []*field) map[string]string {
	out := map[string]string{}
	var add func(fields []*field, ours, theirs string)
	add = func(fields []*field, ours, theirs string) {
		for _, f := range fields {
			at, to := join(ours, f.name), theirs
			if f.gw != "" {
				to = join(theirs, strings.TrimPrefix(f.gw, "!"))
				out[to] = at
			}
			switch {
			case f.isSection():
				add(f.fields, at, to)
			case f.fields != nil && f.gw != "":
				add(f.fields, at+"[]", to+"[]")
			}
		}
	}
	add(fields, "", "")
	for _, in := range []string{"", "Upstreams[]."} {
		if ours, ok := out[in+"ServerSettings"]; ok {
			out[in+"Servers"] = ours
		}
	}
	for _, in := range []string{"", "Routes[]."} {
		if ours, ok := out[in+"Rate"]; ok {
			out[in+"RateBy"] = ours + ".by"
		}
	}
	return out
}
