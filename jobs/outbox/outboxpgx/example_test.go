package outboxpgx_test

import (
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/outbox"
	"github.com/weir-go/weir/jobs/outbox/outboxpgx"
)

// The options of a relay that listens with the address and the settings of a pool.
func ExampleListen() {
	config, err := pgxpool.ParseConfig("postgres://shop@localhost/shop")
	if err != nil {
		log.Fatal(err)
	}
	_ = outbox.RelayOptions{
		Queues: map[string]jobs.QueueOptions{"emails": {}},
		Listen: outboxpgx.Listen(config.ConnConfig),
	}
}
