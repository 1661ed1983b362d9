package weirredis

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/option"
)

// Defaults and bounds of the options.
const (
	DefaultPrefix       = "weir"      // Options.Prefix
	DefaultClientName   = "weir"      // Options.ClientName
	DefaultPingInterval = time.Second // Options.PingInterval
	DefaultDialTimeout  = time.Second // Options.DialTimeout

	minInterval = 10 * time.Millisecond
	maxInterval = time.Minute
	maxPrefix   = 64
	maxDeadline = time.Minute
)

// Options configure a [Tier]. Addresses is required.
type Options struct {
	// Addresses are host:port of the server; of some nodes of a Cluster, at least one
	// of which must respond; or of the Sentinels.
	Addresses []string

	// Cluster states that the server is part of a Redis or Valkey Cluster.
	Cluster bool

	// Sentinel, if not nil, states that Addresses are those of Sentinels.
	Sentinel *Sentinel

	// Username and Password are those of the ACL user. Without a Username, Password
	// is that of the user "default".
	Username, Password string

	// Credentials, if not nil, is called for each new connection instead of using
	// Username and Password, so that they can change while the process runs. It must
	// return soon, and be safe for concurrent use.
	Credentials func() (username, password string, err error)

	// TLS, if not nil, is used for all connections. Without a ServerName, each
	// server's certificate must match the host of its address.
	TLS *tls.Config

	// Prefix is the beginning of the name of each key: up to 64 letters, digits and
	// -_.: characters. Services that share an engine must use different ones.
	// Default: DefaultPrefix.
	Prefix string

	// ClientName is shown in CLIENT LIST. Default: DefaultClientName.
	ClientName string

	// DialTimeout bounds how long a new connection takes, and how long New
	// waits for the first one. Default: DefaultDialTimeout.
	DialTimeout time.Duration

	// PingInterval is how often the push connections are checked, and how long the
	// response to a check may take. In a Cluster it is also how often the list of
	// masters is read. Pushes can be missing for twice as long before Lost is sent.
	// From 10 ms to a minute. Default: DefaultPingInterval.
	PingInterval time.Duration

	// Breaker configures the deadline of each operation, 75 ms by default, and the
	// number of failures after which instances work alone.
	Breaker fleet.BreakerOptions

	// Replaced, if not nil, is called when a limiter or a budget has found a value of
	// another program under its key, and has replaced it: its limit began anew. It must
	// return soon, not call the Tier, and be safe for concurrent use.
	Replaced func(fleet.Key)
}

// Sentinel names the master that the Sentinels monitor.
type Sentinel struct {
	MasterSet          string // its name, required
	Username, Password string // credentials for the Sentinels themselves
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.ClientName == "" {
		o.ClientName = DefaultClientName
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = DefaultDialTimeout
	}
	if o.PingInterval == 0 {
		o.PingInterval = DefaultPingInterval
	}
	return o
}

// An OptionError is a fault in Options.
type OptionError = option.Error

// validate reports all faults at once. o has its defaults.
func (o Options) validate() error {
	f := option.Faults{Package: "weirredis", Prefix: "Options."}
	f.Check(len(o.Addresses) > 0, "Addresses", o.Addresses, "at least one")
	f.Check(len(o.Addresses) < 2 || o.Cluster || o.Sentinel != nil, "Addresses", len(o.Addresses),
		"one, unless Cluster or Sentinel is set")
	for i, a := range o.Addresses {
		host, port, err := net.SplitHostPort(a)
		f.Check(err == nil && host != "" && port != "" && !strings.Contains(host, "@"), fmt.Sprintf("Addresses[%d]", i), a[strings.LastIndexByte(a, '@')+1:],
			"host:port; credentials go into Username and Password")
	}
	f.Check(!o.Cluster || o.Sentinel == nil, "Cluster", o.Cluster, "false, because Sentinel is set")
	if o.Sentinel != nil {
		f.Check(o.Sentinel.MasterSet != "", "Sentinel.MasterSet", o.Sentinel.MasterSet, "not empty")
	}
	f.Check(o.Credentials == nil || o.Username == "" && o.Password == "", "Credentials", "a function",
		"nil, because Username or Password is set")
	f.Check(o.Password != "" || o.Username == "", "Password", "nothing", "not empty, because Username is set")
	f.Check(isWord(o.Prefix) && len(o.Prefix) <= maxPrefix, "Prefix", o.Prefix,
		"up to 64 letters, digits and -_.:")
	f.Check(isWord(o.ClientName), "ClientName", o.ClientName, "letters, digits and -_.:")
	f.Check(o.DialTimeout >= minInterval && o.DialTimeout <= maxInterval, "DialTimeout", o.DialTimeout,
		"from 10ms to 1m")
	f.Check(o.PingInterval >= minInterval && o.PingInterval <= maxInterval, "PingInterval", o.PingInterval,
		"from 10ms to 1m")
	f.Check(o.Breaker.Deadline <= maxDeadline, "Breaker.Deadline", o.Breaker.Deadline, "at most 1m")
	return f.Err()
}

// isWord reports whether s has no character with a meaning to Redis, such as spaces,
// and the braces that select a key's slot in a Cluster.
func isWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '_', c == '.', c == ':':
		default:
			return false
		}
	}
	return s != ""
}
