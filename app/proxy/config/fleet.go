package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// Fleet is what several proxies share. They must have the same configuration.
type Fleet struct {
	Redis       Redis    `yaml:"redis" required:"true" help:"The Redis server (7 or newer) or Valkey server that they share."`
	Namespace   string   `yaml:"namespace" default:"http" form:"name" gw:"Namespace" help:"Separates proxies that share a Redis. All proxies of one namespace must have the same upstreams."`
	Deadline    Duration `yaml:"deadline" default:"75ms" min:"5ms" max:"10s" help:"Limit on the time for each command to Redis. After several timeouts the proxy stops using Redis and retries periodically."`
	Lease       Duration `yaml:"lease" default:"3s" min:"100ms" max:"1h" gw:"Lease" help:"How long other proxies wait for a call of a proxy that has died."`
	MemoryCap   Duration `yaml:"memory_cap" default:"60s" min:"100ms" max:"8784h" gw:"MemoryCap" help:"How long a proxy uses its own copy before it checks Redis for a newer one. This is the longest delay of a purge whose notification was lost."`
	MaxKeep     Duration `yaml:"max_keep" default:"24h" min:"1s" max:"8784h" gw:"MaxKeep" help:"Limit on how long Redis stores a response."`
	Cooling     Duration `yaml:"cooling" default:"250ms" min:"1ms" max:"1h" none:"-1" gw:"Cooling" help:"After a failed call, how long no proxy calls the origin for the same URL if it can serve a stale response. The time doubles with each failure in a row, up to max_cooling. none disables it. routes.cache.cooling is the same for each proxy separately."`
	MaxCooling  Duration `yaml:"max_cooling" default:"10s" min:"1ms" max:"24h" gw:"MaxCooling" help:"Upper bound of cooling; at least cooling."`
	MaxObject   Size     `yaml:"max_object" default:"256KiB" min:"1KiB" max:"64MiB" gw:"MaxObject" help:"Largest body that is stored in Redis. Each proxy fetches larger ones itself."`
	PushValues  bool     `yaml:"push_values" default:"false" gw:"PushValues" help:"Redis pushes small responses that several proxies request, so that fewer requests go to Redis. Every user of this Redis who may use CLIENT TRACKING can receive them. Needs the right +info."`
	MaxPush     Size     `yaml:"max_push" default:"1KiB" min:"1B" max:"64KiB" gw:"MaxPush" help:"Largest response that is pushed, with its header."`
	PushMemory  Size     `yaml:"push_memory" default:"32MiB" min:"256KiB" max:"1TiB" gw:"PushMemory" help:"Limit on the memory for pushed responses that have not been requested yet, and for the names of the URLs requested last."`
	RateFailure string   `yaml:"rate_failure,omitempty" enum:"open,closed,local_share" gw:"RateFailure" help:"What happens to client rates, and to budgets of the fleet, while Redis is unreachable. open: all requests are admitted. closed: they get 503. local_share: each proxy enforces its share. Required if a route has a rate or a budget is the fleet's, because no default suits everyone."`
	Instances   int      `yaml:"instances" default:"0" min:"0" max:"10000" gw:"Instances" help:"Maximum number of proxies. Required by local_share."`
}

// Redis configures the connection to Redis and the credentials.
type Redis struct {
	Addresses    []string  `yaml:"addresses" required:"true" least:"1" form:"address" help:"Host and port of the server, of some nodes of a Cluster, or of the Sentinels."`
	Username     string    `yaml:"username,omitempty" form:"name" help:"ACL user. The default is the user default. Needs password_file."`
	PasswordFile string    `yaml:"password_file,omitempty" form:"file" help:"File with the password, one line."`
	TLS          *RedisTLS `yaml:"tls,omitempty" help:"Uses TLS. Without settings in it, certificates are checked against the system's roots and the host in the address."`
	Cluster      bool      `yaml:"cluster" default:"false" help:"The addresses are nodes of a Redis or Valkey Cluster."`
	Sentinel     *Sentinel `yaml:"sentinel,omitempty" help:"The addresses are Sentinels."`
	Prefix       string    `yaml:"prefix" default:"weir" form:"name" help:"Prefix of all keys in Redis."`
}

// RedisTLS configures how Redis is verified, and the client certificate.
type RedisTLS struct {
	CA         string `yaml:"ca,omitempty" form:"file" help:"PEM file with the certificates to trust instead of the system's roots."`
	Cert       string `yaml:"cert,omitempty" form:"file" help:"PEM file with the client certificate. Needs key."`
	Key        string `yaml:"key,omitempty" form:"file" help:"PEM file with its private key. Needs cert."`
	ServerName string `yaml:"server_name,omitempty" form:"host" help:"Name that certificates must match, instead of the address."`
}

// Sentinel names the master.
type Sentinel struct {
	Master       string `yaml:"master" required:"true" form:"name" help:"Name of the master, as configured in the Sentinels."`
	Username     string `yaml:"username,omitempty" form:"name" help:"User for the Sentinels. Needs password_file."`
	PasswordFile string `yaml:"password_file,omitempty" form:"file" help:"File with the password for the Sentinels, one line."`
}

// A RedisAccess contains the settings of Redis and the contents of the files they name.
type RedisAccess struct {
	Addresses                          []string
	Username, Password                 string // never shown
	TLS                                *tls.Config
	Cluster                            bool
	Master                             string // "" without Sentinels
	SentinelUsername, SentinelPassword string // never shown
	Prefix                             string
	Deadline                           time.Duration
}

// Redis returns how the shared Redis is reached, nil for no fleet. It reads files, and
// its error joins their faults.
func (c *Config) Redis() (*RedisAccess, error) {
	if c.Fleet == nil {
		return nil, nil
	}
	r := c.Fleet.Redis
	a := &RedisAccess{
		Addresses: r.Addresses, Username: r.Username, Cluster: r.Cluster, Prefix: r.Prefix,
		Deadline: time.Duration(c.Fleet.Deadline),
	}
	var errs [3]error
	if r.PasswordFile != "" {
		a.Password, errs[0] = readSecret(r.PasswordFile)
	}
	if s := r.Sentinel; s != nil {
		a.Master, a.SentinelUsername = s.Master, s.Username
		if s.PasswordFile != "" {
			a.SentinelPassword, errs[1] = readSecret(s.PasswordFile)
		}
	}
	if t := r.TLS; t != nil {
		like := UpstreamTLS(*t)
		a.TLS, errs[2] = like.tlsConfig()
	}
	for i, part := range []string{"password_file", "sentinel.password_file", "tls"} {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("fleet.redis.%s: %w", part, errs[i])
		}
	}
	return a, errors.Join(errs[:]...)
}

// checkFleet checks the combination of the fleet's settings.
func (d *decoder) checkFleet(c *Config) {
	if c.Fleet == nil || d.condemned("fleet") {
		return
	}
	if d.nodes["fleet.max_cooling"] == nil {
		c.Fleet.MaxCooling = max(c.Fleet.MaxCooling, c.Fleet.Cooling)
	}
	r := c.Fleet.Redis
	const at = "fleet.redis"
	for i, a := range r.Addresses {
		if host, _, err := net.SplitHostPort(a); err == nil && host == "" {
			d.wrong(d.item(fmt.Sprintf("%s.addresses[%d]", at, i)), a, "must have a host", "")
		}
	}
	if len(r.Addresses) > 1 && !r.Cluster && r.Sentinel == nil && !d.faulty(at) {
		d.wrong(at+".addresses", "", "must be a single address, unless cluster or sentinel is set", "")
	}
	if r.Cluster && r.Sentinel != nil {
		d.wrong(at+".cluster", "true", "cannot be combined with sentinel, which monitors a single master", "")
	}
	d.checkPassword(c, at, r.Username, r.PasswordFile)
	if s := r.Sentinel; s != nil {
		d.checkPassword(c, at+".sentinel", s.Username, s.PasswordFile)
	}
	if t := r.TLS; t != nil {
		d.checkClientTLS(c, at+".tls", UpstreamTLS(*t))
	}
	d.checkRateFailure(c)
}

// checkPassword checks a username and its password file.
func (d *decoder) checkPassword(c *Config, at, username, file string) {
	path := at + ".password_file"
	if username != "" && d.absent(path) {
		d.wrong(path, "", "is missing: a username needs its password", "")
	}
	if file == "" {
		return
	}
	if _, err := readSecret(file); err != nil {
		d.noFile(path, file, err)
	} else if m := exposed(file); m != nil {
		d.warn(c, path, file, m.problem)
	}
}

// checkRateFailure checks that the behavior of rates without Redis is configured.
func (d *decoder) checkRateFailure(c *Config) {
	f := c.Fleet
	const at = "fleet.rate_failure"
	if f.RateFailure == "local_share" && f.Instances == 0 && !d.faulty("fleet.instances") {
		d.wrong("fleet.instances", "", "is missing: local_share needs the maximum number of proxies", "")
	}
	if f.RateFailure != "" || !d.absent(at) {
		return
	}
	for i, r := range c.Routes {
		if r.Rate != nil && r.Fleet {
			d.wrong(at, "", fmt.Sprintf("is missing: routes[%d] has a rate that all proxies share; choose what happens to it while Redis is unreachable", i), "")
			return
		}
	}
	for i, u := range c.Upstreams {
		d.checkBudgetFailure(fmt.Sprintf("upstreams[%d].budget", i), u.Budget != nil && u.Budget.Fleet)
	}
	for i, r := range c.Routes {
		d.checkBudgetFailure(fmt.Sprintf("routes[%d].budget", i), r.Budget != nil && r.Budget.Fleet)
		d.checkBudgetFailure(fmt.Sprintf("routes[%d].client_budget", i), r.Client != nil && r.Client.Fleet)
	}
}

// checkBudgetFailure records that rate_failure is missing, if the budget at that place is the
// fleet's.
func (d *decoder) checkBudgetFailure(at string, shared bool) {
	if shared && !d.faulty("fleet.rate_failure") {
		d.wrong("fleet.rate_failure", "", "is missing: all proxies share "+at+"; choose what happens to it while Redis is unreachable", "")
	}
}
