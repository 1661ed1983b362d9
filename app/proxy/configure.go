package proxy

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/weir-go/weir/app/proxy/access"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/weirhttp"
)

// Configure turns a configuration into Settings. It reads the files that the
// configuration names, and fails if one cannot be read.
func Configure(c *config.Config) (Settings, error) {
	g, err := c.Gateway()
	if err != nil {
		return Settings{}, err
	}
	token, err := c.AdminToken()
	if err != nil {
		return Settings{}, fmt.Errorf("admin.token_file: %w", err)
	}
	shared, err := redis(c)
	if err != nil {
		return Settings{}, err
	}
	keys, err := c.SharedIdempotency()
	if err != nil {
		return Settings{}, err
	}
	later, err := c.JobsAccess()
	if err != nil {
		return Settings{}, err
	}
	sent, err := c.TelemetryAccess()
	if err != nil {
		return Settings{}, err
	}
	s := Settings{
		Source:         c,
		Gateway:        g,
		Folder:         weirhttp.FolderOptions{Folder: c.Cache.Dir, Bytes: int64(c.Cache.DirSize)},
		Keys:           c.IdempotencyFolder(),
		SharedKeys:     sharedKeys(keys),
		Fleet:          shared,
		Jobs:           later,
		Telemetry:      sent,
		MaxConnections: max(int(c.Server.MaxConnections), 0),
		Admin: Admin{
			Address: c.Admin.Address, Token: token, Hosts: adminHosts(c.Admin),
			Console: c.Admin.Console, ShowKeys: c.Admin.ShowKeys,
		},
		Access: access.Options{
			Format:    access.Format(c.Log.Format),
			What:      access.What(c.Log.Access),
			Slow:      time.Duration(c.Log.Slow),
			NoQuery:   !c.Log.Query,
			PerSecond: c.Log.Lines,
		},
		Level:        level(c.Log.Level),
		DrainDelay:   time.Duration(c.Drain.Delay),
		DrainTimeout: time.Duration(c.Drain.Timeout),
		Fixed: map[string]string{
			"cache.memory":   c.Cache.Memory.String(),
			"cache.dir":      c.Cache.Dir,
			"cache.dir_size": c.Cache.DirSize.String(),
			"idempotency":    fixedKeys(c.Idempotency),
			"log.format":     c.Log.Format,
			"fleet":          fixedFleet(c.Fleet),
			"jobs":           fixedJobs(c.Jobs),
			"telemetry":      fixedTelemetry(c.Telemetry),
		},
	}
	s.Files = fileHashes(c)
	fixFiles(s.Fixed, c, s.Files)
	for _, l := range c.Listen {
		s.Listen = append(s.Listen, listenConfig(c, l, s))
	}
	for _, w := range c.Warnings {
		s.Warnings = append(s.Warnings, w.Error())
	}
	return s, nil
}

// listenConfig returns the configuration of one listener, with the limits that apply to
// all.
func listenConfig(c *config.Config, l config.Listener, s Settings) listen.Config {
	out := listen.Config{
		Address:  l.Address,
		H2C:      l.H2C,
		FastPath: c.Server.FastPath,
		Limits: listen.Limits{
			Whole:          max(time.Duration(c.Server.ReadTimeout), 0),
			ReadHeader:     time.Duration(c.Server.ReadHeaderTimeout),
			Idle:           time.Duration(c.Server.IdleTimeout),
			Read:           time.Duration(c.Server.BodyTimeout),
			Write:          time.Duration(c.Server.WriteTimeout),
			MaxHeaderBytes: int(c.Server.MaxHeader),
			MaxStreams:     c.Server.MaxStreams,
		},
	}
	if l.TLS != nil {
		out.TLS = listen.KeyPair{Cert: l.TLS.Cert, Key: l.TLS.Key}
		for _, more := range l.TLS.More {
			out.More = append(out.More, listen.NamedPair{KeyPair: listen.KeyPair{Cert: more.Cert, Key: more.Key}, Names: more.Names})
		}
	}
	if l.ProxyProtocol {
		out.ProxyProtocol = s.Gateway.TrustedProxies
	}
	return out
}

// adminHosts returns the host names that requests to the admin listener may use: the
// configured ones, and the name it listens on.
func adminHosts(a config.Admin) []string {
	hosts := append([]string(nil), a.AllowedHosts...)
	if host, _, err := net.SplitHostPort(a.Address); err == nil && host != "" && net.ParseIP(host) == nil {
		hosts = append(hosts, host)
	}
	return hosts
}

func level(name string) slog.Level {
	var l slog.Level
	_ = l.UnmarshalText([]byte(name)) // the configuration has been checked
	return l
}
