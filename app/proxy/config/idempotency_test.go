package config_test

import (
	"strings"
	"testing"
)

// Each sign of several proxies in a configuration makes a warning, because the others do not
// know the keys of a folder.
func TestH45_WarnsOfProxiesThatDoNotKnowTheKeys(t *testing.T) {
	const base = "upstreams: [{name: shop, servers: ['http://127.0.0.1:3000']}]\nidempotency: {dir: keys}\n"
	const route = "routes: [{name: pay, idempotency: {unknown: refuse}}]\n"
	for name, tt := range map[string]struct{ more, sign string }{
		"one proxy":       {route, ""},
		"a fleet":         {route + "fleet: {redis: {addresses: ['127.0.0.1:6379']}}\n", "fleet"},
		"not this route":  {"routes: [{name: pay, fleet: false, idempotency: {unknown: refuse}}]\nfleet: {redis: {addresses: ['127.0.0.1:6379']}}\n", ""},
		"servers of jobs": {"routes: [{name: pay, idempotency: {unknown: refuse}}, {name: later, path: /later, async: {}}]\njobs: {nats: ['nats://127.0.0.1:4222']}\n", "jobs.nats"},
		"own jobs":        {"routes: [{name: pay, idempotency: {unknown: refuse}}, {name: later, path: /later, async: {}}]\njobs: {dir: jobs}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder(t)
			c, faults := load(t, base+tt.more)
			if faults != nil {
				t.Fatal(faults.Text())
			}
			text := c.Warnings.Text()
			if got := strings.Contains(text, "another one runs a call again"); got != (tt.sign != "") || !strings.Contains(text, tt.sign) {
				t.Errorf("warnings %q; want the sign %q", text, tt.sign)
			}
		})
	}
}
