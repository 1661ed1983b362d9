package jobscheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// A serverConfig describes one server.
type serverConfig struct {
	Name       string
	Dir        string
	Port       int
	Durability jobs.Durability

	// ClusterPort and Routes are set for the servers of a cluster.
	ClusterPort int
	Routes      []string
}

// startServer starts an embedded server, or one server of a cluster, which package
// embedded does not support.
func startServer(c serverConfig) (end func(), err error) {
	if c.ClusterPort == 0 {
		s, err := embedded.Start(embedded.Options{Dir: c.Dir, Durability: c.Durability, Listen: fmt.Sprintf("127.0.0.1:%d", c.Port)})
		return func() { _ = s.Close(context.Background()) }, err
	}
	o := &server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: c.Port, JetStream: true, StoreDir: c.Dir, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "check", Host: "127.0.0.1", Port: c.ClusterPort},
	}
	for _, r := range c.Routes {
		u, err := url.Parse(r)
		if err != nil {
			return nil, err
		}
		o.Routes = append(o.Routes, u)
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(openWithin) {
		return nil, errors.New("not ready")
	}
	return func() { s.Shutdown(); s.WaitForShutdown() }, nil
}

func joinURLs(urls []string) string { return strings.Join(urls, ",") }

// freePorts returns loopback ports that are currently free.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// leader returns the name of the server that leads the stream of the jobs.
func leader(ctx context.Context, nc *nats.Conn) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		return "", err
	}
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		if info.Cluster != nil && info.Cluster.Leader != "" {
			return info.Cluster.Leader, nil
		}
	}
	return "", errors.Join(errors.New("jobscheck: no stream has a leader"), list.Err())
}
