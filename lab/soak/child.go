package soak

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-go/weir/app/cli"
	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/lab/internal/proc"
)

// role is the environment variable that holds the role of a process of a soak.
const role = "WEIR_SOAK_ROLE"

// The roles.
const (
	roleWeir = "weir" // the program weir, with the arguments of this process
	roleNATS = "nats" // a server of the cluster, configured by a natsNode
)

// Child runs this process in the role given by a soak, and exits. In a process that
// no soak started it does nothing. Call it first in main, or in TestMain.
func Child() {
	switch os.Getenv(role) {
	case "":
		return
	case roleWeir:
		os.Unsetenv(role) //nolint:errcheck // weir must not inherit it
		proc.DieWithParent()
		os.Exit(cli.Main(command.OS()))
	case roleNATS:
		proc.DieWithParent()
		if err := serveNATS(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	default:
		fmt.Fprintf(os.Stderr, "soak: %s=%q is not a role\n", role, os.Getenv(role))
		os.Exit(1)
	}
}

// A natsNode is one server of the cluster.
type natsNode struct {
	Name        string
	Dir         string
	Port, Route int
	Routes      []string
}

// natsStart is how long a server has to accept connections.
const natsStart = 30 * time.Second

// serveNATS runs a NATS server until SIGTERM.
func serveNATS(text string) error {
	var n natsNode
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	o := &server.Options{
		ServerName: n.Name, Host: "127.0.0.1", Port: n.Port, NoSigs: true,
		JetStream: true, StoreDir: n.Dir, DisableJetStreamBanner: true,
		JetStreamMaxStore: 2 << 30, JetStreamMaxMemory: 64 << 20,
		Cluster: server.ClusterOpts{Name: "soak", Host: "127.0.0.1", Port: n.Route},
	}
	for _, r := range n.Routes {
		u, err := url.Parse(r)
		if err != nil {
			return err
		}
		o.Routes = append(o.Routes, u)
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(natsStart) {
		return fmt.Errorf("soak: the NATS server %s is not ready after %v", n.Name, natsStart)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
