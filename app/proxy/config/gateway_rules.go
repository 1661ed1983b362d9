package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/gateway"
)

// A rule translates an error of the gateway about a combination of settings, in which the
// gateway uses the names and forms of Go.
type rule struct {
	field string // the end of the gateway's path, with [] for an index
	bound string // a part of the gateway's bound
	// problem is the fault. {name} is replaced by the value of that setting in the same
	// section, and {n} by the first number in the bound.
	problem string
	// needs are the other settings in the rule: in the same section, with ^ in the upstream
	// or route, with / at the top, or the cost of the route's upstream. If one of them is
	// faulty, the error is a consequence.
	needs []string
}

var gatewayRules = []rule{
	{field: "MaxCooling", bound: "from", problem: "must be at least cooling, which is {cooling}", needs: []string{"cooling"}},
	{field: "].Upstream", needs: []string{"/upstreams"}},
	{field: ".Servers[]", bound: "named before", problem: "is already in the list, written in another way"},
	{field: ".Cost", bound: "Budget", problem: "is missing: a budget needs the cost of a call, such as cost: {units: 1}",
		needs: []string{"upstream", "cost", "cost of the upstream"}},
	{field: ".Cost.Currency", bound: "Price", problem: "is missing: price needs the code of its currency, such as currency: EUR"},
	{field: ".Cost.Default", bound: "JSON field", problem: "needs field, the JSON field that it stands for, such as field: /max_tokens", needs: []string{"field"}},
	{field: ".Fleet", bound: "Config.Fleet", problem: "needs the section fleet, such as fleet: {redis: {addresses: [127.0.0.1:6379]}}", needs: []string{"/fleet"}},
	{field: "Fleet.RateFailure", bound: "set", problem: "is missing: all proxies share a rate or a budget", needs: []string{"/upstreams", "/routes"}},
	{field: "Fleet.Instances", bound: "maximum", problem: "is missing: local_share needs the maximum number of proxies", needs: []string{"rate_failure"}},
	{field: ".Rate.Burst", bound: "at most", problem: "must be at most {n} with these requests and per", needs: []string{"requests", "per"}},
	{field: ".Rate.Burst", bound: "at least", problem: "must be at least {n}, because all proxies share the rate; set burst, or fleet: false for the route",
		needs: []string{"requests", "per", "^fleet", "/fleet"}},
	{field: ".ClientBudget.Per", bound: "milliseconds", problem: "must be 1ms to 24h in whole milliseconds, such as per: 1500ms"},
	{field: ".ClientBudget.By", bound: "IgnoreHeaders", problem: "must be a field that is not in cache.ignore_headers, because it is removed before"},
	{field: ".Cache.Force", bound: "TTL", problem: "needs ttl, such as ttl: 1m", needs: []string{"ttl"}},
	{field: ".StripPrefix", bound: "parent", problem: "must be the path of the route, or a parent of it", needs: []string{"path"}},
	{field: ".Hosts[]", bound: "named before", problem: "is already in the list: hosts are case-insensitive"},
	{field: ".Hosts[]", bound: "domain", problem: "must be a host without a port, such as shop.example, *.shop.example or [::1]"},
	{field: ".Reads[].Types", bound: "at least one", problem: "is missing: name at least one media type, unless QUERY is the only method, such as types: [application/json]",
		needs: []string{"methods", "types"}},
	{field: ".Reads[].Ignore", bound: "CompareJSON", problem: "needs compare: json", needs: []string{"compare"}},
	{field: ".Reads[].Only", bound: "CompareJSON", problem: "needs compare: json", needs: []string{"compare"}},
	{field: ".Reads[].GraphQL", bound: "CompareJSON", problem: "needs compare: json", needs: []string{"compare"}},
	{field: ".Reads[].Ignore", bound: "GraphQL", problem: "is in the document of a GraphQL request, which cannot be ignored", needs: []string{"graphql"}},
	{field: ".Only[].Field", bound: "one condition", problem: "is a second condition for the same field; write one with all its values, separated by or"},
	{field: ".Only[].Values", bound: "JSON value", problem: `must have JSON values that every program reads alike, such as 0, true or "low"`},
	{field: ".Idempotency.Principal", bound: "TrustedProxies", problem: "needs trusted_proxies, the peers that have verified these fields", needs: []string{"/trusted_proxies"}},
	{field: ".Idempotency.Unknown", bound: "retries", problem: "must be forward, because retry.methods of the upstream has methods that are not safe, which are sent again without knowing what they did", needs: []string{"upstream"}},
	{field: ".Hedge", bound: "Cost", problem: "cannot be used where calls have a cost: what a call costs that is given up is not known", needs: []string{"upstream", "cost", "cost of the upstream"}},
	{field: ".Events.Share", bound: "Events", problem: "must be true, because other settings of events are set"},
}

var (
	anyIndex  = regexp.MustCompile(`\[\d+\]`)
	headerKey = regexp.MustCompile(`^(.*)\[("(?:[^"\\]|\\.)*")\]$`)
	number    = regexp.MustCompile(`\d+`)
	inBraces  = regexp.MustCompile(`\{[a-z_]+\}`)
)

// checkGateway has the gateway validate its configuration, and reports the gateway's
// errors with the names of the settings in the file. If there are other faults, their
// settings have their defaults, and errors that can be consequences of that are left out.
func (d *decoder) checkGateway(c *Config) {
	others := len(d.faults) > 0
	g, err := c.gateway()
	if err != nil && others {
		err = nil // a file that cannot be read, which has its fault
	}
	if err == nil {
		err = d.validate(g)
	}
	for _, err := range flatten(err) {
		option, ok := errors.AsType[*gateway.OptionError](err)
		if !ok {
			if !others {
				d.faults = append(d.faults, &Fault{File: cmp.Or(d.file, "--upstream"), Problem: err.Error()})
			}
			continue
		}
		d.gatewayFault(c, option)
	}
}

// gatewayFault records an error of the gateway, unless it is a consequence of a fault.
func (d *decoder) gatewayFault(c *Config, e *gateway.OptionError) {
	value := fmt.Sprint(e.Value)
	if text, err := strconv.Unquote(value); err == nil {
		value = text
	}
	path := d.item(translate(e.Field))
	if secret(e.Field) {
		if _, in, ok := strings.Cut(path, ".request.set."); ok && d.nodes[path] == nil {
			from := strings.TrimSuffix(path, "set."+in) + "set_from_file." + in
			if d.nodes[from] != nil {
				path = from
			}
		}
		value = ""
	}
	if n := d.nodes[path]; n != nil && resolve(n).Kind == yaml.SequenceNode {
		for i, item := range resolve(n).Content {
			if strings.EqualFold(resolve(item).Value, value) && value != "" {
				path = fmt.Sprintf("%s[%d]", path, i)
				break
			}
		}
	}
	if kept, shorter := d.kept[path]; shorter && len(kept) == 0 {
		return // the list is empty only because all its items are faulty
	}
	problem := "must be " + e.Bound
	if r := ruleOf(e); r != nil {
		for _, need := range r.needs {
			if d.doubtful(needed(c, path, need)) {
				return
			}
		}
		if r.problem != "" {
			problem, value = d.fill(r.problem, path, e.Bound), ""
			if n := d.nodes[path]; n != nil {
				value = scalarValue(resolve(n))
			}
		}
	}
	if !d.condemned(path) {
		d.complain(d.place(path), value, &mistake{problem: problem})
	}
}

// secret reports whether the values of a field of the gateway can be secret.
func secret(field string) bool {
	return strings.Contains(field, ".SetRequest") || strings.Contains(field, ".SetResponse")
}

// ruleOf returns the rule of an error, nil if the gateway's words are those of the file.
func ruleOf(e *gateway.OptionError) *rule {
	field := "." + anyIndex.ReplaceAllString(e.Field, "[]")
	for i, r := range gatewayRules {
		if strings.HasSuffix(field, r.field) && strings.Contains(e.Bound, r.bound) {
			return &gatewayRules[i]
		}
	}
	return nil
}

// needed returns the path of another setting in the rule of the setting at path.
func needed(c *Config, path, need string) string {
	item, _, _ := strings.Cut(path, ".") // such as routes[1]
	switch {
	case need[0] == '/':
		return need[1:]
	case need[0] == '^':
		return join(item, need[1:])
	case need == "cost of the upstream":
		for i := range c.Upstreams {
			if route, err := strconv.Atoi(number.FindString(item)); err == nil && c.Upstreams[i].Name == c.Routes[route].Upstream {
				return fmt.Sprintf("upstreams[%d].cost", i)
			}
		}
	}
	return join(parent(path), need)
}

// parent returns the section of a setting, or of the list that an item is in.
func parent(path string) string {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i]
	}
	return ""
}

// fill replaces what is in braces in the problem of a rule.
func (d *decoder) fill(problem, path, bound string) string {
	return inBraces.ReplaceAllStringFunc(problem, func(name string) string {
		if name = strings.Trim(name, "{}"); name == "n" {
			return number.FindString(bound)
		}
		if n := d.nodes[join(parent(path), name)]; n != nil {
			return scalarValue(resolve(n))
		}
		def := ""
		at := anyIndex.ReplaceAllString(join(parent(path), name), "[]")
		eachField(root, "", func(path string, f *field) {
			if path == at {
				def = f.def
			}
		})
		return def
	})
}

// translate turns a path of the gateway into the path of a setting.
func translate(field string) string {
	rest, name := strings.TrimPrefix(field, "Config."), ""
	if m := headerKey.FindStringSubmatch(rest); m != nil {
		if text, err := strconv.Unquote(m[2]); err == nil {
			rest, name = m[1], "."+text
		}
	}
	indexes := anyIndex.FindAllString(rest, -1)
	theirs := anyIndex.ReplaceAllString(rest, "[]")
	addresses := gatewayAddresses(root)
	for at := theirs; at != ""; {
		if ours, ok := addresses[at]; ok {
			after := theirs[len(at):]
			switch {
			case strings.HasPrefix(after, "[].") && (ours == "routes" || ours == "upstreams"):
				ours += after // a field without a setting keeps its name
			case strings.HasPrefix(after, "[]"):
				ours += "[]"
			}
			return numbered(ours, indexes) + name
		}
		i := strings.LastIndexAny(at, ".[")
		if i < 0 {
			break
		}
		at = at[:i]
	}
	return rest + name
}

// numbered puts indexes into the brackets of a path.
func numbered(path string, indexes []string) string {
	for _, index := range indexes {
		path = strings.Replace(path, "[]", index, 1)
	}
	return path
}
