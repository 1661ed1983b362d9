package pgtable

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Parse returns ErrURL for text that is not a connection URL.
var ErrURL = errors.New("want postgres://host:port/database, with user:password@ before the host where it asks")

// A Server is the database server and the user for the table. It holds a password, and no
// format shows it.
type Server struct {
	pool *pgxpool.Config
}

// Parse parses a PostgreSQL connection URL, and takes what it leaves out from the
// environment (PGPASSWORD and the like). The error never contains any part of the URL,
// because a mistyped password may be anywhere in it.
func Parse(connURL string) (Server, error) {
	u, err := url.Parse(connURL)
	if err != nil {
		return Server{}, fmt.Errorf("%w; special characters in the password must be percent-encoded", ErrURL)
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return Server{}, ErrURL
	}
	cfg, err := pgxpool.ParseConfig(connURL)
	if err != nil {
		return Server{}, fmt.Errorf("%w; a port, a certificate file or an option after the ? is not valid", ErrURL)
	}
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	cfg.ConnConfig.RuntimeParams["application_name"] = "weir demo"
	return Server{pool: cfg}, nil
}

// Address returns the server's host and port.
func (s Server) Address() string {
	return net.JoinHostPort(s.pool.ConnConfig.Host, strconv.Itoa(int(s.pool.ConnConfig.Port)))
}

// String returns the address, so that no verb of fmt shows more.
func (s Server) String() string { return s.Address() }

// GoString returns the same as String.
func (s Server) GoString() string { return "pgtable.Server(" + s.Address() + ")" }

func (s Server) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, s.pool.ConnConfig.Copy())
	if err != nil {
		return nil, s.describe(ctx, "connect", err)
	}
	return conn, nil
}

// An Error reports what a server did not do, and why, in one line.
type Error struct {
	Address string // host and port
	Doing   string // what was wanted: "create a schema"
	Reason  string
	Refused bool // the server refused
	err     error
}

func (e *Error) Error() string {
	if e.Refused {
		return fmt.Sprintf("PostgreSQL at %s refuses to %s: %s", e.Address, e.Doing, e.Reason)
	}
	return fmt.Sprintf("PostgreSQL at %s: cannot %s: %s", e.Address, e.Doing, e.Reason)
}

func (e *Error) Unwrap() error { return e.err }

// describe turns an error of pgx into one line: pgx's texts have several lines and repeat
// themselves for each address it tried. If ctx has ended, that is the reason.
func (s Server) describe(ctx context.Context, doing string, err error) error {
	e := &Error{Address: s.Address(), Doing: doing, err: err}
	if cause := context.Cause(ctx); cause != nil {
		e.Reason, e.err = cause.Error(), cause
		return e
	}
	if no, ok := errors.AsType[*pgconn.PgError](err); ok {
		e.Refused = true
		e.Reason = no.Message + " (SQLSTATE " + no.Code + ")" + s.advice(no.Code)
		return e
	}
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Reason = "connection refused; nothing listens there"
	case errors.As(err, &dns):
		e.Reason = "host not found"
	case pgconn.Timeout(err), errors.Is(err, context.DeadlineExceeded):
		e.Reason = fmt.Sprintf("no answer within %v", connectTimeout)
	case errors.As(err, &op):
		e.Reason = op.Err.Error()
	default:
		e.Reason = innermost(err).Error()
	}
	return e
}

// SQLSTATE codes with our advice, from the PostgreSQL manual, appendix A.
const (
	codeNoPrivilege  = "42501"
	codeTooManyConns = "53300"
)

func (s Server) advice(code string) string {
	switch code {
	case codeNoPrivilege:
		return fmt.Sprintf("; the demo creates its own schema: GRANT CREATE ON DATABASE %s TO %s",
			pgx.Identifier{s.pool.ConnConfig.Database}.Sanitize(), pgx.Identifier{s.pool.ConnConfig.User}.Sanitize())
	case codeTooManyConns:
		return fmt.Sprintf("; the demo uses up to %d connections", MaxConns+1)
	default:
		return ""
	}
}

// innermost follows err's chain to its end.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
