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
	DefaultMinFree = 256 << 20

	// SyncInterval is how much of the last writes a loss of power can take, with
	// jobs.DurabilityProcess.
	SyncInterval = time.Second

	minBytes = 1 << 20
	maxBytes = 1 << 50
)

// What the server within is set to. A message is the input or the result with
// some headers. Of those that wait to be sent to one connection there can be as
// many as a worker fetches at once: beyond maxPending the server would cut it.
const (
	maxPayload = jobs.MaxPayload + 1<<20
	maxPending = 1 << 30
	maxMemory  = 64 << 20 // of streams in memory, which jobs do not use

	// Atomic batches. Each of up to a thousand messages waits in files of its
	// own until it is complete, so that many may be open.
	maxBatchSize      = 1000
	maxBatchesStream  = 1000
	maxBatchesServer  = 10_000
	maxStreamBuffered = 1 << 30 // bytes of writes that wait for the stream
)

// Options of a Server.
type Options struct {
	// Dir is the folder with the jobs. It is made, for its owner only. One
	// Server at a time has it. Required.
	Dir string

	// Durability is jobs.DurabilityDisk (the default: every write is flushed before it is
	// acknowledged) or jobs.DurabilityProcess (many more writes per second; after a loss of
	// power those of the last SyncInterval may be missing).
	Durability jobs.Durability

	// Listen is host:port where other programs reach the server: workers apart,
	// the command line. With port 0 the system chooses, see Addr. Empty: nobody
	// does. It must be on loopback unless there is a Token. There is no TLS: over
	// a network that is not trusted, use a NATS server of your own.
	Listen string

	// Token, if not empty, is required of other programs.
	Token string

	// MaxBytes bounds what all jobs of all namespaces take, from 1 MiB. A
	// jobs.Store with more StoreOptions.MaxBytes than is left of it cannot be
	// opened. Default: no bound but MinFree.
	MaxBytes int64

	// MinFree is how much stays free on the disk of Dir: with less, nothing is
	// accepted. It must leave room for what is written within a quarter of a
	// second. Default: DefaultMinFree. Negative: nothing stays free.
	MinFree int64

	// Log logs the server's warnings and errors. Nil: nothing does.
	Log *slog.Logger
}

// withDefaults returns o with all that it leaves open filled in.
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

// validate returns all that is wrong with o, which has its defaults.
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
	// The server takes what looks like one for the hash of a token.
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

// isLoopback does not look names up: what they lead to can change.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// serverOptions are those of the server within. The port is the one that it had
// before, where it is started again, else -1 for that of Listen.
func (o Options) serverOptions(port int) *server.Options {
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
	so.Host, so.Port, _ = splitListen(o.Listen) // validated
	if port > 0 {
		so.Port = port
	}
	if so.Port == 0 {
		so.Port = server.RANDOM_PORT
	}
	return so
}
