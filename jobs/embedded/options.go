package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

// Defaults and bounds of the options.
const (
	DefaultMinFree = 256 << 20 // Options.MinFree

	// SyncInterval bounds how much of the latest writes a power cut can lose with
	// jobs.DurabilityProcess.
	SyncInterval = time.Second

	minBytes = 1 << 20
	maxBytes = int64(1) << 50
)

// Settings of the embedded server. A message carries a job's input or result and some
// headers. A worker may fetch many jobs at once, and all of them may wait to be sent
// on one connection; the server would cut a connection with more than maxPending
// waiting.
const (
	maxPayload = jobs.MaxPayload + 1<<20
	maxPending = 1 << 30
	maxMemory  = 64 << 20 // for streams in memory, which jobs do not use

	// Atomic batches. Each of up to a thousand messages waits in its batch's files
	// until the batch is complete, so many batches may be open.
	maxBatchSize      = 1000
	maxBatchesStream  = 1000
	maxBatchesServer  = 10_000
	maxStreamBuffered = 1 << 30 // bytes of writes waiting for the stream
)

// Options of a Server.
type Options struct {
	// Dir is the folder with the jobs. It is created with access for its owner only.
	// Only one Server at a time can use it. Required.
	Dir string

	// Durability is jobs.DurabilityDisk (the default: every write is flushed before
	// it is acknowledged) or jobs.DurabilityProcess (many more writes per second, but
	// a power cut may lose those of the last SyncInterval).
	Durability jobs.Durability

	// Listen is the host:port at which other programs, such as separate workers and
	// the command line, reach the server. With port 0 the system chooses a port; see
	// Addr. If empty, the server does not listen. It must be a loopback address
	// unless there is a Token. There is no TLS: over a network that you do not trust,
	// run a separate NATS server.
	Listen string

	// Token, if not empty, must be presented by other programs.
	Token string

	// MaxBytes bounds the storage for all jobs of all namespaces; the minimum is 1
	// MiB. A jobs.Store whose StoreOptions.MaxBytes exceeds what is left of it cannot
	// be opened. Default: no bound except MinFree.
	MaxBytes int64

	// MinFree is how many bytes stay free on the disk of Dir. With fewer, package jobs
	// refuses new jobs; programs with the embedded server ask for what is free before each, others
	// before each sixteenth of what was left. If less than a quarter of MinFree is free, all writes are rejected. The rest must leave room
	// for the outcomes of accepted jobs, the quarter for the writes of a quarter of a
	// second. Default: DefaultMinFree. Negative: no space is kept free.
	MinFree int64

	// Log receives the server's warnings and errors. Nil: they are discarded.
	Log *slog.Logger
}

// withDefaults returns o with defaults for unset fields.
func (o Options) withDefaults() Options {
	if o.Durability == 0 {
		o.Durability = jobs.DurabilityDisk
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = maxBytes
	}
	if o.MinFree == 0 {
		o.MinFree = DefaultMinFree
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Log = plain.Logger(o.Log)
	return o
}

// validate returns all faults in o, which must have its defaults.
func (o Options) validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("embedded: Dir is required"))
	}
	if o.Durability != jobs.DurabilityDisk && o.Durability != jobs.DurabilityProcess {
		errs = append(errs, fmt.Errorf("embedded: Durability %q; want %q or %q", o.Durability, jobs.DurabilityDisk, jobs.DurabilityProcess))
	}
	if o.Listen != "" {
		errs = append(errs, o.validateListen())
	}
	// The server would take such a token for a bcrypt hash.
	if strings.HasPrefix(o.Token, "$2") {
		errs = append(errs, errors.New(`embedded: Token begins with "$2", as a bcrypt hash does; want the token itself`))
	}
	if o.MaxBytes < minBytes || o.MaxBytes > maxBytes {
		errs = append(errs, fmt.Errorf("embedded: MaxBytes %d; want %d to %d", o.MaxBytes, minBytes, maxBytes))
	}
	return errors.Join(errs...)
}

func (o Options) validateListen() error {
	host, port, err := splitListen(o.Listen)
	switch {
	case err != nil:
		return fmt.Errorf("embedded: Listen %q; want host:port", o.Listen)
	case port < 0 || port > 65535:
		return fmt.Errorf("embedded: Listen %q: port %d; want 0 to 65535", o.Listen, port)
	case o.Token == "" && !isLoopback(host):
		return fmt.Errorf("embedded: Listen %q without Token; want a host on loopback, or a Token", o.Listen)
	}
	return nil
}

func splitListen(listen string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(p)
	return host, port, err
}

// isLoopback does not resolve names, because a name can change its address.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// serverOptions returns the options of the embedded server. The port is the previous
// port if the server is restarted, or -1 for the port in Listen.
//
// Other programs are let in by the gate; nil lets in those with the Token.
func (o Options) serverOptions(port int, g *gate) *server.Options {
	so := &server.Options{
		StoreDir:              o.Dir,
		JetStream:             true,
		JetStreamMaxMemory:    maxMemory,
		JetStreamMaxStore:     o.MaxBytes + 1, // see Server.keepFree
		SyncInterval:          SyncInterval,
		MaxPayload:            maxPayload,
		MaxPending:            maxPending,
		StreamMaxBufferedSize: maxStreamBuffered,
		JetStreamLimits: server.JSLimitOpts{
			MaxBatchSize:              maxBatchSize,
			MaxBatchInflightPerStream: maxBatchesStream,
			MaxBatchInflightTotal:     maxBatchesServer,
		},
		DontListen:             o.Listen == "",
		Authorization:          o.Token,
		NoSigs:                 true,
		NoLog:                  true,
		DisableJetStreamBanner: true,
	}
	if o.Listen == "" {
		return so
	}
	if g != nil {
		so.Authorization, so.CustomClientAuthentication = "", g
	}
	so.Host, so.Port, _ = splitListen(o.Listen) // validated
	if port > 0 {
		so.Port = port
	}
	if so.Port == 0 {
		so.Port = server.RANDOM_PORT
	}
	return so
}
