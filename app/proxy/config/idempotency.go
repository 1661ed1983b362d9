package config

import (
	"fmt"
	"path/filepath"

	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// Idempotency configures where the keys of routes with idempotency are kept.
type Idempotency struct {
	Dir  string `yaml:"dir,omitempty" form:"dir" help:"Folder with the keys and the responses to their calls, which are there in clear. It belongs to this proxy alone, and is created if it does not exist. Set this or fleet."`
	Size Size   `yaml:"size" default:"1GiB" min:"16MiB" max:"1TiB" help:"Limit on what is kept, with what running calls reserve for their responses (max_response). Nothing is evicted: without room, requests with a new key get 503. One principal can use a quarter. The file can have twice as much."`
	Keys int    `yaml:"keys" default:"1000000" min:"4" max:"100000000" help:"Limit on the number of keys. With dir, each is about 300 bytes of memory."`

	Fleet      bool   `yaml:"fleet" default:"false" help:"Keeps the keys in the Redis of the section fleet, sealed with secret_file, so that all proxies of the fleet know them. A proxy that Redis cannot be reached from refuses requests with a key, with 503."`
	SecretFile string `yaml:"secret_file,omitempty" form:"file" help:"With fleet: file with one line, of at least 16 bytes, the same for all proxies. What is in Redis cannot be read without it."`
	Replicas   int    `yaml:"replicas" default:"0" min:"0" max:"16" help:"With fleet: how many replicas of Redis must have a claim before its call is sent. With 0, a failover can lose the last claims, whose calls then run again if they are repeated."`
}

// RouteIdempotency configures calls that run at most once.
type RouteIdempotency struct {
	TTL         Duration `yaml:"ttl" default:"24h" min:"1m" max:"720h" gw:"TTL" help:"How long a key is known, from the start of its call."`
	Required    bool     `yaml:"required" default:"false" gw:"Required" help:"Refuses requests without Idempotency-Key, with 400, unless their method is safe."`
	Unknown     string   `yaml:"unknown" required:"true" enum:"refuse,forward" gw:"Unknown" help:"What a request gets whose earlier call may have taken effect or not. refuse: 409, until an operator settles the call or ttl is over. forward: it is sent again, to an origin that knows keys itself."`
	MaxBody     Size     `yaml:"max_body" default:"1MiB" min:"1B" max:"16MiB" gw:"MaxBody" help:"Limit on the body of a request with a key, which is read before the call. Larger ones get 413. Bodies in use count towards server.read_ahead_memory."`
	MaxResponse Size     `yaml:"max_response" default:"256KiB" min:"1KiB" max:"16MiB" gw:"MaxResponse" help:"Largest response that is kept, with its fields. Each running call reserves as much in idempotency.size. A larger response, an event stream, gRPC, and a response without a length whose end is the end of its connection go to the first client alone; later requests with the key get 409."`
	Store       []int    `yaml:"store,omitempty" min:"401" max:"503" least:"1" gw:"Keep" help:"Statuses whose responses are kept, although they free the key by default: 401, 403, 407, 408, 425, 429, and 503 with Retry-After."`
	Principal   []string `yaml:"principal,omitempty" form:"header principal" gw:"Principal" help:"Fields that say who the client is, as header:NAME, in requests from trusted_proxies, which must have verified them and remove them from what clients send. They replace the comparison of Authorization, Cookie and other credentials, so that a client can repeat a request with a renewed token. Other fields that name a user or a tenant, such as X-Tenant-Id, are then compared as a part of the request. In requests without any of the fields, and from other peers, credentials are compared."`
}

var unknownOutcomes = map[string]weirhttp.UnknownOutcome{"refuse": weirhttp.UnknownRefuse, "forward": weirhttp.UnknownForward}

// IdempotencyFolder returns the options of the folder with the keys; its Folder is empty
// without one.
func (c *Config) IdempotencyFolder() once.FolderOptions {
	if c.Idempotency == nil {
		return once.FolderOptions{}
	}
	i := c.Idempotency
	return once.FolderOptions{Folder: i.Dir, Bytes: int64(i.Size), Keys: i.Keys}
}

// A SharedIdempotency says how the keys are kept in the Redis of the fleet.
type SharedIdempotency struct {
	Namespace string
	Secret    []byte // never shown
	Bytes     int64
	Keys      int
	Replicas  int
}

// SharedIdempotency returns how keys are kept in Redis, nil if they are not. It reads the file
// with the secret.
func (c *Config) SharedIdempotency() (*SharedIdempotency, error) {
	i := c.Idempotency
	if i == nil || !i.Fleet || c.Fleet == nil {
		return nil, nil
	}
	secret, err := readSecret(i.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("idempotency.secret_file: %w", err)
	}
	return &SharedIdempotency{Namespace: c.Fleet.Namespace, Secret: []byte(secret), Bytes: int64(i.Size), Keys: i.Keys, Replicas: i.Replicas}, nil
}

// minSecret is the shortest secret in idempotency.secret_file, in bytes.
const minSecret = 16

// checkKeyStore checks where keys are kept.
func (d *decoder) checkKeyStore(c *Config) {
	i, at := c.Idempotency, "idempotency"
	switch {
	case i.Fleet && i.Dir != "":
		d.wrong(at+".fleet", "true", "cannot be combined with dir: keys are in one place", "")
	case !i.Fleet && i.Dir == "" && d.absent(at+".dir"):
		d.wrong(at, "", "needs dir: FOLDER, or fleet: true", "")
	case !i.Fleet:
		for name, set := range map[string]bool{"secret_file": i.SecretFile != "", "replicas": i.Replicas > 0} {
			if set {
				d.wrong(at+"."+name, "", "can only be used with fleet: true", "")
			}
		}
		return
	}
	if !i.Fleet {
		return
	}
	if c.Fleet == nil && d.absent("fleet") {
		d.wrong(at+".fleet", "true", "needs the section fleet, which configures Redis", "")
	}
	switch secret, err := readSecret(i.SecretFile); {
	case i.SecretFile == "":
		if d.absent(at + ".secret_file") {
			d.wrong(at+".fleet", "true", "needs secret_file, which all proxies of the fleet have", "")
		}
	case err != nil:
		d.noFile(at+".secret_file", i.SecretFile, err)
	case len(secret) < minSecret:
		d.wrong(at+".secret_file", i.SecretFile, fmt.Sprintf("must have at least %d bytes", minSecret), "")
	default:
		if m := exposed(i.SecretFile); m != nil {
			d.warn(c, at+".secret_file", i.SecretFile, m.problem)
		}
	}
	if f := c.Fleet; f != nil && i.Replicas == 0 && (f.Redis.Cluster || f.Redis.Sentinel != nil) {
		d.warn(c, at, "", "has no replicas: a failover of Redis can lose the last claims, whose calls then run again if they are repeated. Set replicas: 1 or more")
	}
}

// checkIdempotency checks the routes whose calls run at most once, and their folder.
func (d *decoder) checkIdempotency(c *Config) {
	any := false
	for i := range c.Routes {
		r := &c.Routes[i]
		if r.Idempotency == nil {
			continue
		}
		any = true
		at := fmt.Sprintf("routes[%d].idempotency", i)
		if c.Idempotency == nil && d.absent("idempotency") {
			d.wrong(at, "", "needs the section idempotency, which configures where keys are kept, such as idempotency: {dir: keys}", "")
		}
		if r.Async != nil {
			d.wrong(at, "", "cannot be combined with async, which has its own keys", "")
		}
		if r.Observe || c.Observe {
			d.warn(c, at, "", "has no effect in observe mode")
		}
		if sign := c.several(); sign != "" && r.Fleet && (c.Idempotency == nil || !c.Idempotency.Fleet) {
			d.warn(c, at, "", "has its keys in this proxy alone, and "+sign+" means that there are several proxies: another one runs a call again that has the same key. Set idempotency.fleet, or route all requests with a key to one proxy and set fleet: false for the route")
		}
	}
	if c.Idempotency == nil || d.faulty("idempotency") {
		return
	}
	d.checkKeyStore(c)
	if !any {
		d.warn(c, "idempotency", "", "has no effect: no route has idempotency")
	}
	if c.Idempotency.Dir == "" {
		return
	}
	own := realPath(c.Idempotency.Dir)
	for name, dir := range map[string]string{"cache.dir": c.Cache.Dir, "jobs.dir": c.jobsDir()} {
		if dir == "" {
			continue
		}
		if other := realPath(dir); filepath.Clean(own) == filepath.Clean(other) || within(own, other) || within(other, own) {
			d.wrong("idempotency.dir", c.Idempotency.Dir, "overlaps "+name+"; each needs its own folder", "")
			return
		}
	}
}

// several returns the name of the part that shows that there are several proxies with this
// configuration, "" if there is none.
func (c *Config) several() string {
	switch {
	case c.Fleet != nil:
		return "fleet"
	case c.Jobs != nil && len(c.Jobs.NATS) > 0:
		return "jobs.nats"
	}
	return ""
}

func (c *Config) jobsDir() string {
	if c.Jobs == nil {
		return ""
	}
	return c.Jobs.Dir
}
