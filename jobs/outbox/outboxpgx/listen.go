// Package outboxpgx receives the notifications of package outbox with pgx.
//
//	config, err := pgx.ParseConfig(url)
//	relay, err := outbox.NewRelay(ctx, table, store, outbox.RelayOptions{
//		Queues: queues,
//		Listen: outboxpgx.Listen(config),
//	})
//
// A pgxpool.Pool has its config in pool.Config().ConnConfig. Behind PgBouncer, which has
// no LISTEN in its transaction mode, use the address of PostgreSQL, or no Listener.
package outboxpgx

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-go/weir/jobs/outbox"
)

const (
	// pingEvery is how often an idle connection is checked. A connection that was cut
	// without notice would otherwise wait for notifications indefinitely.
	pingEvery = 30 * time.Second
	// pingTimeout is how long PostgreSQL may take to respond to it.
	pingTimeout = 5 * time.Second
)

// Listen returns a value for outbox.RelayOptions.Listen. Each call of it opens one
// connection with a copy of config.
func Listen(config *pgx.ConnConfig) func(context.Context) (outbox.Listener, error) {
	return func(ctx context.Context) (outbox.Listener, error) {
		conn, err := pgx.ConnectConfig(ctx, config.Copy())
		if err != nil {
			return nil, err
		}
		if _, err := conn.Exec(ctx, "LISTEN "+outbox.Channel); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
		return &listener{conn}, nil
	}
}

// A listener is a connection that listens on the channel.
type listener struct{ conn *pgx.Conn }

var _ outbox.Listener = (*listener)(nil)

// Wait returns the payload of the next notification.
func (l *listener) Wait(ctx context.Context) (string, error) {
	for {
		quiet, cancel := context.WithTimeout(ctx, pingEvery)
		n, err := l.conn.WaitForNotification(quiet)
		cancel()
		switch {
		case err == nil:
			return n.Payload, nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case !errors.Is(err, context.DeadlineExceeded) || l.conn.IsClosed():
			return "", err
		}
		ping, cancel := context.WithTimeout(ctx, pingTimeout)
		err = l.conn.Ping(ping)
		cancel()
		if err != nil {
			return "", err
		}
	}
}

// Close closes the connection.
func (l *listener) Close(ctx context.Context) error { return l.conn.Close(ctx) }
