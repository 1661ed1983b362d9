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
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// Settings are a configuration that has been read and checked.
type Settings struct {
	Gateway gateway.Config
	// Folder has the second tier of Gateway.Cache. Its Folder is empty without one.
	Folder weirhttp.FolderOptions
	// Keys has the folder of Gateway.Claims. Its Folder is empty without one.
	Keys once.FolderOptions
	// SharedKeys configures Gateway.Claims in the Redis of Fleet. nil means that they are not there.
	SharedKeys *weirredis.ClaimsOptions
	// Fleet configures the Tier of Gateway.Fleet, which is created from it. nil means
	// no fleet.
	Fleet *weirredis.Options
	// Jobs describes where the jobs of routes are kept. nil means no jobs.
	Jobs *config.JobsAccess
	// Telemetry describes where metrics and traces are sent. nil means nowhere.
	Telemetry *config.TelemetryAccess
	Listen    []listen.Config // at least one, each with a different address
	// MaxConnections bounds the connections of all listeners together. 0 means no
	// bound.
	MaxConnections int
	Admin          Admin
	Access         access.Options // without Out, Logger and Client
	Level          slog.Level     // of the program's log
	// DrainDelay is how long connections are still accepted after the first signal.
	DrainDelay time.Duration
	// DrainTimeout is how long requests have to finish after that.
	DrainTimeout time.Duration
	// Fixed contains the settings that need a restart, by name, as text. A reload that
	// changes one of them logs a warning.
	Fixed map[string]string
	// Files contains hashes of the files that the configuration names, by setting. A reload
	// compares them to find the files that changed.
	Files map[string]string
	// Source is the configuration from which the settings were created, nil if unknown.
	// A reload compares it to find the changes.
	Source *config.Config
	// Warnings are about settings that are allowed but look wrong.
	Warnings []string
}

// Admin configures the listener for operators.
type Admin struct {
	Address string // empty means none
	Token   string // never shown
	Hosts   []string
	Console bool
	// ShowKeys shows keys in the console.
	ShowKeys bool
}

// A Gateway serves the requests: a *gateway.Gateway, or a fake in tests.
type Gateway interface {
	http.Handler
	admin.Gateway
	show.Gateway
	ServeRoute(w http.ResponseWriter, r *http.Request, name string) bool
	Update(gateway.Config) error
	Close(context.Context) error
}

var _ Gateway = (*gateway.Gateway)(nil)
