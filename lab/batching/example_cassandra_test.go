package batching_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/batch"
)

// A Reading is a row of
//
//	CREATE TABLE readings (sensor text, at timestamp, celsius double, PRIMARY KEY (sensor, at))
type Reading struct {
	Sensor  string // the partition
	At      time.Time
	Celsius float64
}

// connect returns a session that sends each statement to a node that holds its
// partition.
func connect() *gocql.Session {
	cluster := gocql.NewCluster(os.Getenv("CASSANDRA_HOST"))
	cluster.Keyspace = "weather"
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	// The driver delays each request briefly, to send others with it. Here one
	// request already carries many rows.
	cluster.WriteCoalesceWaitTime = 0
	session, err := cluster.CreateSession()
	if err != nil {
		log.Fatal(err)
	}
	return session
}

// A batch that spans partitions makes one Cassandra node do the work for all of them,
// and is slower than separate statements. Within a partition it is one atomic write
// to the nodes that hold it. So the Scope is the partition.
func Example_writeCassandra() {
	ctx := context.Background()
	session := connect()
	defer session.Close()

	// All readings are from one sensor. Writing one twice has no further effect, so a
	// caller that gets batch.ErrUnknown may try again.
	write := func(ctx context.Context, readings []Reading) ([]struct{}, error) {
		b := session.Batch(gocql.UnloggedBatch)
		for _, r := range readings {
			b.Query(`INSERT INTO readings (sensor, at, celsius) VALUES (?, ?, ?)`, r.Sensor, r.At, r.Celsius)
		}
		return nil, b.ExecContext(ctx)
	}
	readings, err := batch.NewFrom(
		batch.Source[Reading, struct{}]{Run: write, Scope: func(r Reading) any { return r.Sensor }},
		// No RetrySingly: failures here come from a node, not from a row, and fifty
		// more writes would not help a struggling node.
		batch.Options{
			MaxSize:     50, // one write to the node: a few KiB
			Linger:      2 * time.Millisecond,
			MaxParallel: 32, // all sensors share them
		},
	)
	if err != nil {
		log.Fatal(err)
	}
	defer readings.Close(ctx) // before the session

	start := time.UnixMilli(1_800_000_000_000)
	var callers sync.WaitGroup
	for i := range 100 {
		callers.Go(func() {
			r := Reading{fmt.Sprint("sensor-", i%4), start.Add(time.Duration(i) * time.Second), float64(i)}
			if _, err := readings.Do(ctx, r); err != nil {
				log.Print(err)
			}
		})
	}
	callers.Wait()

	var n int
	err = session.Query(`SELECT count(*) FROM readings WHERE sensor = ?`, "sensor-3").ScanContext(ctx, &n)
	fmt.Println(n, "readings", err)
	// Prints:
	// 25 readings <nil>
}

// An At identifies a reading.
type At struct {
	Sensor string
	Time   time.Time
}

// Reads of one partition are gathered into an IN on its clustering column. An IN over
// several partitions gains nothing: one node would query the others and wait for the
// slowest. Concurrent single reads go straight to the right nodes; for those use a
// Guard with a plain Load and no batch.
func Example_readCassandra() {
	ctx := context.Background()
	session := connect()
	defer session.Close()

	read := func(ctx context.Context, keys []At) ([]float64, error) {
		times := make([]time.Time, len(keys))
		for i, k := range keys {
			times[i] = k.Time
		}
		iter := session.Query(`SELECT at, celsius FROM readings WHERE sensor = ? AND at IN ?`, keys[0].Sensor, times).IterContext(ctx)
		found := make(map[int64]float64, len(keys))
		var at time.Time
		var celsius float64
		for iter.Scan(&at, &celsius) {
			found[at.UnixMilli()] = celsius
		}
		if err := iter.Close(); err != nil {
			return nil, err
		}
		values, missing := make([]float64, len(keys)), make(batch.Errors, len(keys))
		for i, k := range keys {
			var ok bool
			if values[i], ok = found[k.Time.UnixMilli()]; !ok {
				missing[i] = weir.ErrNotFound
			}
		}
		return values, missing
	}
	readings, err := batch.NewFrom(
		batch.Source[At, float64]{Run: read, Scope: func(k At) any { return k.Sensor }},
		batch.Options{MaxParallel: 32},
	)
	if err != nil {
		log.Fatal(err)
	}
	defer readings.Close(ctx)

	start := time.UnixMilli(1_800_000_000_000)
	answers := make([]string, 100)
	var callers sync.WaitGroup
	for i := range answers {
		callers.Go(func() {
			celsius, err := readings.Do(ctx, At{"sensor-3", start.Add(time.Duration(i) * time.Second)})
			answers[i] = fmt.Sprintln(celsius, err)
		})
	}
	callers.Wait()
	fmt.Print(answers[2], answers[3])
	// Prints:
	// 0 weir: not found
	// 3 <nil>
}
