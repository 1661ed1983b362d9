package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/jobs/bounded"
)

// jobsEnv is the prefix of the environment variables for the flags of weir jobs.
const jobsEnv = "WEIR_JOBS_"

// maxSecret bounds a file with a token or a password.
const maxSecret = 4096

// jobsSource holds the flags that set where the jobs are.
type jobsSource struct {
	Admin        string `group:"Where the jobs are (one of --admin and --nats)" placeholder:"URL" help:"The admin listener of a running proxy: http://127.0.0.1:9090."`
	NATS         string `group:"Where the jobs are (one of --admin and --nats)" name:"nats" placeholder:"URL" help:"The NATS servers of the jobs: nats://127.0.0.1:4222, several separated by commas."`
	Namespace    string `group:"Where the jobs are (one of --admin and --nats)" placeholder:"NAME" help:"With --nats: the namespace; without the flag: default."`
	TokenFile    string `group:"Where the jobs are (one of --admin and --nats)" placeholder:"FILE" help:"File with the token for the proxy or the servers."`
	User         string `group:"Where the jobs are (one of --admin and --nats)" placeholder:"NAME" help:"With --nats: the user; needs --password-file."`
	PasswordFile string `group:"Where the jobs are (one of --admin and --nats)" placeholder:"FILE" help:"With --nats: file with the user's password."`
	Creds        string `group:"Where the jobs are (one of --admin and --nats)" placeholder:"FILE" help:"With --nats: file with credentials."`
}

// A jobsPlace is where the jobs are, according to flags and variables.
type jobsPlace struct {
	admin *jobsctl.AdminOptions
	nats  *jobsctl.NATSOptions
}

// open connects to it.
func (p jobsPlace) open(ctx context.Context) (jobsctl.Source, error) {
	if p.admin != nil {
		return jobsctl.FromAdmin(*p.admin), nil
	}
	return jobsctl.FromNATS(ctx, *p.nats)
}

// place parses the flags and records what is wrong with them.
func (s jobsSource) place(getenv func(string) string, f *command.Faults) jobsPlace {
	given := s
	s.fill(getenv)
	switch {
	case s.Admin != "" && s.NATS != "":
		*f = append(*f, errors.New("--admin and --nats: want one of them, not both"))
	case s.Admin != "":
		given.onlyNATS(f)
		return jobsPlace{admin: s.adminOptions(f)}
	case s.NATS != "":
		return jobsPlace{nats: s.natsOptions(f)}
	default:
		*f = append(*f, errors.New("where are the jobs? --admin http://127.0.0.1:9090 asks a running proxy, --nats nats://127.0.0.1:4222 the servers that keep them"))
	}
	return jobsPlace{}
}

// fill uses variables for missing flags. If one address is a flag, variables for the other
// are ignored.
func (s *jobsSource) fill(getenv func(string) string) {
	addressed := s.Admin != "" || s.NATS != ""
	for name, flag := range map[string]*string{
		"ADMIN": &s.Admin, "NATS": &s.NATS, "NAMESPACE": &s.Namespace, "TOKEN_FILE": &s.TokenFile,
		"USER": &s.User, "PASSWORD_FILE": &s.PasswordFile, "CREDS": &s.Creds,
	} {
		if *flag == "" && (!addressed || name != "ADMIN" && name != "NATS") {
			*flag = strings.TrimSpace(getenv(jobsEnv + name))
		}
	}
}

// onlyNATS records flags that do not apply to a proxy.
func (s jobsSource) onlyNATS(f *command.Faults) {
	for _, flag := range []struct{ name, value string }{
		{"namespace", s.Namespace}, {"user", s.User}, {"password-file", s.PasswordFile}, {"creds", s.Creds},
	} {
		if flag.value != "" {
			*f = append(*f, fmt.Errorf("--%s: can only be used with --nats; a proxy has its own setting", flag.name))
		}
	}
}

func (s jobsSource) adminOptions(f *command.Faults) *jobsctl.AdminOptions {
	url, err := jobsctl.ParseAdmin(s.Admin)
	if err != nil {
		*f = append(*f, fmt.Errorf("--admin: %w", err)) // without the value, which may hold a password
	}
	return &jobsctl.AdminOptions{URL: url, Token: secret("token-file", s.TokenFile, f)}
}

func (s jobsSource) natsOptions(f *command.Faults) *jobsctl.NATSOptions {
	if err := jobsctl.CheckNATS(s.NATS); err != nil {
		*f = append(*f, fmt.Errorf("--nats: %w", err))
	}
	ways := 0
	for _, way := range []string{s.TokenFile, s.User + s.PasswordFile, s.Creds} {
		if way != "" {
			ways++
		}
	}
	if ways > 1 {
		*f = append(*f, errors.New("--token-file, --user and --creds: want one of them"))
	}
	if (s.User == "") != (s.PasswordFile == "") {
		*f = append(*f, errors.New("--user and --password-file: want both or none"))
	}
	return &jobsctl.NATSOptions{
		URL: s.NATS, Namespace: s.Namespace, User: s.User, Creds: s.Creds,
		Token: secret("token-file", s.TokenFile, f), Password: secret("password-file", s.PasswordFile, f),
	}
}

// secret reads the one line of a file; without a file it returns "".
func secret(flag, name string, f *command.Faults) string {
	if name == "" {
		return ""
	}
	text, err := bounded.File(name, maxSecret+2) // with the end of the line
	text = bytes.TrimRight(text, "\r\n")
	switch {
	case err != nil && !errors.As(err, new(*bounded.SizeError)):
		*f = append(*f, fmt.Errorf("--%s: %w", flag, err))
	case err != nil || len(text) == 0 || len(text) > maxSecret || bytes.ContainsAny(text, "\r\n"):
		*f = append(*f, fmt.Errorf("--%s=%s: want a file with one line, of 1 to %d bytes", flag, name, maxSecret))
	}
	return string(text)
}
