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

// Keys are in one place, which is whole: a folder, or the fleet with a secret.
func TestH45_WhereKeysAreKept(t *testing.T) {
	const fleet = "fleet: {redis: {addresses: ['127.0.0.1:6379']}}\n"
	const sentinel = "fleet: {redis: {addresses: ['127.0.0.1:26379'], sentinel: {master: main}}}\n"
	for name, tt := range map[string]struct{ text, fault, warning string }{
		"folder":               {"idempotency: {dir: keys}\n", "", ""},
		"fleet":                {"idempotency: {fleet: true, secret_file: ../good.token}\n" + fleet, "", ""},
		"failover, replicas":   {"idempotency: {fleet: true, secret_file: ../good.token, replicas: 1}\n" + sentinel, "", ""},
		"failover":             {"idempotency: {fleet: true, secret_file: ../good.token}\n" + sentinel, "", "a failover of Redis can lose the last claims"},
		"neither":              {"idempotency: {size: 1GiB}\n", "needs dir: FOLDER, or fleet: true", ""},
		"both":                 {"idempotency: {dir: keys, fleet: true, secret_file: ../good.token}\n" + fleet, "cannot be combined with dir", ""},
		"no fleet":             {"idempotency: {fleet: true, secret_file: ../good.token}\n", "needs the section fleet", ""},
		"no secret":            {"idempotency: {fleet: true}\n" + fleet, "needs secret_file", ""},
		"a short secret":       {"idempotency: {fleet: true, secret_file: ../short.token}\n" + fleet, "must have at least 16 bytes", ""},
		"a missing secret":     {"idempotency: {fleet: true, secret_file: ../none}\n" + fleet, "idempotency.secret_file", ""},
		"a secret of a folder": {"idempotency: {dir: keys, secret_file: ../good.token}\n", "can only be used with fleet: true", ""},
		"replicas of a folder": {"idempotency: {dir: keys, replicas: 1}\n", "can only be used with fleet: true", ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder(t)
			c, faults := load(t, "upstreams: [{name: shop, servers: ['http://127.0.0.1:3000']}]\nroutes: [{name: pay, idempotency: {unknown: refuse}}]\n"+tt.text)
			if tt.fault != "" {
				if faults == nil || !strings.Contains(faults.Text(), tt.fault) {
					t.Errorf("faults %v; want %q", faults, tt.fault)
				}
				return
			}
			if faults != nil {
				t.Fatal(faults.Text())
			}
			if text := c.Warnings.Text(); !strings.Contains(text, tt.warning) || tt.warning == "" && text != "" {
				t.Errorf("warnings %q; want %q", text, tt.warning)
			}
			if got, err := c.SharedIdempotency(); err != nil || (got != nil) != strings.Contains(tt.text, "fleet: true") || got != nil && string(got.Secret) != "0123456789abcdef" {
				t.Errorf("SharedIdempotency = %v, %v", got, err)
			}
		})
	}
}
