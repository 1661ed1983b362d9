package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A Sync determines when Cassandra acknowledges a write.
type Sync string

const (
	// SyncPeriodic acknowledges at once and flushes every 10 s: a power failure loses
	// the writes since the last flush.
	SyncPeriodic Sync = "periodic"

	// SyncBatch acknowledges after a flush, which starts at once and includes all
	// waiting writes.
	SyncBatch Sync = "batch"

	// SyncGroup acknowledges after a flush, with at least 10 ms between two flushes.
	SyncGroup Sync = "group"
)

// syncSettings holds the lines of the configuration for each Sync.
var syncSettings = map[Sync]string{
	SyncPeriodic: "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n",
	SyncBatch:    "commitlog_sync: batch\n",
	SyncGroup:    "commitlog_sync: group\ncommitlog_sync_group_window: 10ms\n",
}

// DefaultCassandraHeapMiB is the default heap of CassandraOptions, and
// MinCassandraHeapMiB the smallest permitted one.
const (
	DefaultCassandraHeapMiB = 512
	MinCassandraHeapMiB     = 256
)

// CassandraOptions configure Cassandra. The zero value is for tests.
type CassandraOptions struct {
	// HeapMiB is the size of Java's heap in MiB; 0 means
	// DefaultCassandraHeapMiB. The process takes about 350 MiB more.
	HeapMiB int

	// Sync determines when a write is acknowledged; empty means SyncPeriodic.
	Sync Sync
}

func (o CassandraOptions) validate() error {
	var errs []error
	if o.HeapMiB != 0 && o.HeapMiB < MinCassandraHeapMiB {
		errs = append(errs, fmt.Errorf("engine: CassandraOptions.HeapMiB is %d; want 0 (%d) or at least %d",
			o.HeapMiB, DefaultCassandraHeapMiB, MinCassandraHeapMiB))
	}
	if o.Sync != "" && syncSettings[o.Sync] == "" {
		errs = append(errs, fmt.Errorf("engine: CassandraOptions.Sync is %q; want %s, %s or %s",
			o.Sync, SyncPeriodic, SyncBatch, SyncGroup))
	}
	return errors.Join(errs...)
}

// Cassandra starts a Cassandra of one node on a free loopback port, without
// passwords. It returns when the server accepts requests: after 5 s on two idle
// cores, 30 s on busy ones. As root it runs as nobody. The Server's URL is host:port.
//
// ctx bounds only the start; the server runs until Stop. The error is a
// [*MissingError] on a machine without Java 17 or the jars.
func Cassandra(ctx context.Context, o CassandraOptions) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	java, err := findCassandra()
	if err != nil {
		return nil, err
	}
	c := &cassandra{java: java, options: o}
	return launch{
		name:    "cassandra",
		url:     "127.0.0.1:%d",
		ports:   2,
		quit:    syscall.SIGKILL, // any other signal drains, for 8 s, data that is discarded anyway
		prepare: c.folders,
		command: c.command,
		ready:   c.ready,
	}.start(ctx)
}

// findCassandra returns the Java to start Cassandra with.
func findCassandra() (string, error) {
	if !haveJars() {
		return "", missing("cassandra")
	}
	return findJava()
}

// installCassandra installs Java and the jars if they are missing.
func installCassandra(ctx context.Context, w io.Writer) error {
	err := installPackages(ctx, w, "cassandra", func() error {
		_, err := findJava()
		return err
	})
	if err != nil || haveJars() {
		return err
	}
	return fetchJars(ctx, w, cassandraFolder(), cassandraJars)
}

// A cassandra is a server that is starting.
type cassandra struct {
	java    string
	options CassandraOptions
}

// folders creates the folder for temporary files, into which Cassandra's libraries
// unpack native code. Cassandra creates the others itself.
func (c *cassandra) folders(_ context.Context, h home) error {
	tmp := filepath.Join(h.path, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil || h.user == nil {
		return err
	}
	return os.Chown(tmp, int(h.user.Uid), int(h.user.Gid))
}

func (c *cassandra) command(h home, ports []int) (*exec.Cmd, error) {
	if err := h.write("cassandra.yaml", c.config(h, ports)); err != nil {
		return nil, err
	}
	if err := h.write("logback.xml", cassandraLog); err != nil {
		return nil, err
	}
	cmd := h.command(context.Background(), c.java, c.args(h)...)
	return cmd, nil
}

// cassandraLog sends warnings and errors to standard output, and so into the error of
// a failed start.
const cassandraLog = `<configuration>
<appender name="out" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%-5level %date %logger{0} %msg%n</pattern></encoder>
</appender>
<root level="WARN"><appender-ref ref="out"/></root>
</configuration>
`

func (c *cassandra) args(h home) []string {
	heap := cmp.Or(c.options.HeapMiB, DefaultCassandraHeapMiB)
	tmp := filepath.Join(h.path, "tmp")
	return []string{
		"--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED",
		"--add-opens", "java.base/java.io=ALL-UNNAMED",
		"--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED",
		fmt.Sprintf("-Xms%dm", heap), fmt.Sprintf("-Xmx%dm", heap), "-Xss512k",
		"-XX:MaxDirectMemorySize=256m",
		"-XX:+ExitOnOutOfMemoryError", // rather than hanging
		"-XX:-UsePerfData",            // it would write a file outside the folder
		"-Djava.net.preferIPv4Stack=true",
		"-Dio.netty.tryReflectionSetAccessible=true",
		"-Djava.io.tmpdir=" + tmp, "-Djna.tmpdir=" + tmp, "-Duser.home=" + h.path,
		"-Dcassandra-foreground=yes", // otherwise it closes its output before it listens
		"-Dcassandra.config=file://" + filepath.Join(h.path, "cassandra.yaml"),
		"-Dcassandra.storagedir=" + h.path,
		"-Dlogback.configurationFile=" + filepath.Join(h.path, "logback.xml"),
		// A single node need not wait for others.
		"-Dcassandra.skip_wait_for_gossip_to_settle=0",
		"-Dcassandra.ring_delay_ms=0",
		"-Dcassandra.superuser_setup_delay_ms=0",
		"-cp", filepath.Join(cassandraFolder(), "*"),
		"org.apache.cassandra.service.CassandraDaemon",
	}
}

func (c *cassandra) config(h home, ports []int) string {
	var b strings.Builder
	fmt.Fprint(&b, "cluster_name: weir\nnum_tokens: 16\n",
		"partitioner: org.apache.cassandra.dht.Murmur3Partitioner\n",
		"endpoint_snitch: SimpleSnitch\n",
		"listen_address: 127.0.0.1\nrpc_address: 127.0.0.1\n")
	fmt.Fprintf(&b, "data_file_directories: [%q]\n", filepath.Join(h.path, "data"))
	for _, name := range []string{"commitlog", "saved_caches", "hints", "cdc_raw"} {
		fmt.Fprintf(&b, "%s_directory: %q\n", name, filepath.Join(h.path, name))
	}
	fmt.Fprintf(&b, "native_transport_port: %d\nstorage_port: %d\n", ports[0], ports[1])
	fmt.Fprintf(&b, "seed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n"+
		"    parameters: [{seeds: \"127.0.0.1:%d\"}]\n", ports[1])
	b.WriteString(syncSettings[cmp.Or(c.options.Sync, SyncPeriodic)])
	return b.String()
}

// ready reports whether the server answers the native protocol's OPTIONS,
// which needs no handshake: frame header of version 4 with an empty body
// (native_protocol_v4.spec, sections 2 and 4.1.3), answered by SUPPORTED.
func (c *cassandra) ready(ctx context.Context, _ home, port int) bool {
	const version, options, answer, supported = 0x04, 0x05, 0x84, 0x06
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte{version, 0, 0, 0, options, 0, 0, 0, 0}); err != nil {
		return false
	}
	var header [9]byte // version, flags, stream (2), opcode, length (4)
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return false
	}
	return header[0] == answer && header[4] == supported && binary.BigEndian.Uint32(header[5:]) > 0
}
