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
	DefaultPrefix       = "weir"
	DefaultClientName   = "weir"
	DefaultPingInterval = time.Second
	DefaultDialTimeout  = time.Second

	minInterval = 10 * time.Millisecond
	maxInterval = time.Minute
	maxPrefix   = 64
	maxDeadline = time.Minute
)

// Options configure a [Tier]. Addresses is required.
type Options struct {
	// Addresses are host:port of the server; of some nodes of a Cluster, of
	// which one must answer; or of the Sentinels.
	Addresses []string

	// Cluster says that the server is one of a Redis or Valkey Cluster.
	Cluster bool

	// Sentinel, if not nil, says that Addresses are Sentinels'.
	Sentinel *Sentinel

	// Username and Password are of the ACL user. Without a Username it is the
	// user "default".
	Username, Password string

	// Credentials, if not nil, is called for each new connection in place of
	// Username and Password, so that they can change while the process runs.
	// It must return soon, and is called on several goroutines at once.
	Credentials func() (username, password string, err error)

	// TLS, if not nil, is used for all connections. Without a ServerName
	// certificates must be for the host of each address.
	TLS *tls.Config

	// Prefix is what the name of each key begins with, up to 64 bytes of
	// letters, digits and -_.: of which services that share an engine have one
	// each. Default: DefaultPrefix.
	Prefix string

	// ClientName is shown in CLIENT LIST. Default: DefaultClientName.
	ClientName string

	// DialTimeout bounds how long a new connection takes, and how long New
	// waits for the first one. Default: DefaultDialTimeout.
	DialTimeout time.Duration

	// PingInterval is how often the connections that bring the pushes are
	// checked, and how long the answer to that may take; in a Cluster also how
	// often its masters are looked up. Pushes can be missing for twice as long
	// before Lost comes. From 10 ms to a minute. Default:
	// DefaultPingInterval.
	PingInterval time.Duration

	// Breaker has the deadline of each operation, 75 ms by default, and after
	// how many missed ones instances go on alone.
	Breaker fleet.BreakerOptions
}

// Sentinel names the master that the Sentinels watch.
type Sentinel struct {
	MasterSet          string // its name, required
	Username, Password string // for the Sentinels themselves
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
			"host:port; Username and Password have fields of their own")
	}
	f.Check(!o.Cluster || o.Sentinel == nil, "Cluster", o.Cluster, "false, as Sentinel is set")
	if o.Sentinel != nil {
		f.Check(o.Sentinel.MasterSet != "", "Sentinel.MasterSet", o.Sentinel.MasterSet, "not empty")
	}
	f.Check(o.Credentials == nil || o.Username == "" && o.Password == "", "Credentials", "a function",
		"nil, as Username or Password is set")
	f.Check(o.Password != "" || o.Username == "", "Password", "nothing", "not empty, as Username is set")
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

// isWord reports whether s has nothing that means something to Redis: spaces,
// and the braces by which a Cluster finds a key's slot.
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
