package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/app/proxy/access"
	"github.com/weir-go/weir/app/proxy/admin"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/app/proxy/show"
	"github.com/weir-go/weir/gateway"
)

// Settings are a configuration that has been read and checked.
type Settings struct {
	Gateway gateway.Config
	// Fleet is where Gateway.Fleet is shared, nil for none. Its Tier is built
	// from this.
	Fleet *weirredis.Options
	// Jobs is where the jobs of routes are kept, nil for none.
	Jobs *config.JobsAccess
	// Telemetry is where metrics and traces are sent, nil for nowhere.
	Telemetry *config.TelemetryAccess
	Listen    []listen.Config // at least one, each with another address
	// MaxConnections bounds those of all Listen together. 0 means no bound.
	MaxConnections int
	Admin          Admin
	Access         access.Options // without Out, Logger and Client
	Level          slog.Level     // of the program's log
	// DrainDelay is how long connections are accepted after the first signal.
	DrainDelay time.Duration
	// DrainTimeout is how long requests have to end after that.
	DrainTimeout time.Duration
	// Fixed are settings that need a restart, by name, as text: a reload that
	// changes them logs that.
	Fixed map[string]string
	// Source is what the settings were read from, nil if unknown: a reload
	// tells by it what has changed.
	Source *config.Config
	// Warnings are what is allowed, and yet looks wrong.
	Warnings []string
}

// Admin is the listener for operators.
type Admin struct {
	Address string // empty means none
	Token   string // never shown
	Hosts   []string
	Console bool
	// ShowKeys shows keys in the console.
	ShowKeys bool
}

// A Gateway is what answers: a *gateway.Gateway, or a test's.
type Gateway interface {
	http.Handler
	admin.Gateway
	show.Gateway
	ServeRoute(w http.ResponseWriter, r *http.Request, name string) bool
	Stored(ctx context.Context, r *http.Request) (*http.Request, bool)
	Update(gateway.Config) error
	Close(context.Context) error
}

var _ Gateway = (*gateway.Gateway)(nil)
