package engine

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// RedisOptions configure Redis. The zero value is for tests.
type RedisOptions struct {
	// Valkey starts valkey-server instead of redis-server.
	Valkey bool

	// Args are further arguments of the program, such as "--maxmemory",
	// "64mb".
	Args []string
}

func (o RedisOptions) name() string {
	if o.Valkey {
		return "valkey"
	}
	return "redis"
}

// Redis starts Redis on a free loopback port, without a password and without
// persistence. It returns when connections are accepted: after some 20 ms. As root it
// runs as nobody. The Server's URL is host:port.
//
// ctx bounds only the start; the server runs until Stop. The error is a
// [*MissingError] on a machine without Redis.
func Redis(ctx context.Context, o RedisOptions) (*Server, error) {
	l, err := o.launch()
	if err != nil {
		return nil, err
	}
	return l.start(ctx)
}

func (o RedisOptions) launch() (launch, error) {
	p, err := findProgram(o.name())
	if err != nil {
		return launch{}, err
	}
	return launch{
		name:  o.name(),
		url:   "127.0.0.1:%d",
		ports: 1,
		quit:  syscall.SIGKILL, // there is nothing to save
		command: func(h home, ports []int) (*exec.Cmd, error) {
			args := []string{"--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}
			if len(ports) > 1 {
				args = append(args, "--cluster-port", strconv.Itoa(ports[1]))
			}
			return h.command(context.Background(), p, append(args, o.Args...)...), nil
		},
		ready: func(_ context.Context, h home, _ int) bool { return said(h, "Ready to accept connections") },
	}, nil
}

// member returns the launch of a node of a cluster. Its second port is the cluster's
// bus: by default that is the first plus 10,000, which may exceed the largest port
// number.
func (o RedisOptions) member(nodeTimeout int64) (launch, error) {
	o.Args = append([]string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
		"--cluster-node-timeout", fmt.Sprint(nodeTimeout),
	}, o.Args...)
	l, err := o.launch()
	l.ports = 2
	return l, err
}
