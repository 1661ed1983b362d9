package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/lab/internal/cpu"
	"github.com/weir-go/weir/lab/internal/proc"
)

// A Server is a service in a separate process.
type Server struct {
	Variant string
	URL     string // without a slash at its end

	control string
	proc    *proc.Process
	log     *bytes.Buffer // read only after the process has ended
	stop    func() error
}

// startTimeout is how long a service has to become ready: it may fill a table.
const startTimeout = 2 * time.Minute

// stopGrace is how long a process of the lab has to end after a signal.
const stopGrace = 5 * time.Second

// Serve starts the scenario's service in that variant, with parameters passed as
// JSON. It ends when Run is over, or with Stop.
func (l *Lab) Serve(ctx context.Context, variant string, params any) (*Server, error) {
	l.Step("starting %s", variant)
	defer l.progress.Close()
	encoded, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("scenario: parameters of %s: %w", variant, err)
	}
	o := order{l.scenario.Name, Options{Variant: variant, Small: l.Small, Params: encoded}}
	s, err := l.config.serve(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", variant, err)
	}
	l.Defer(s.Stop)
	return s, nil
}

// serve starts a serving process and waits until it is ready.
func (c Config) serve(ctx context.Context, o order) (*Server, error) {
	first, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := c.child(roleServe)
	in, keep, err := os.Pipe() // the child ends when the other end is closed
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, told, err := os.Pipe()
	if err != nil {
		keep.Close()
		return nil, err
	}
	defer out.Close()
	log := new(bytes.Buffer)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, told, log
	p, err := proc.Start(cmd, syscall.SIGKILL)
	told.Close()
	if err != nil {
		keep.Close()
		return nil, err
	}
	s := &Server{Variant: o.Options.Variant, proc: p, log: log}
	s.stop = sync.OnceValue(func() error {
		keep.Close()
		p.SignalGroup(syscall.SIGCONT) //nolint:errcheck // it has ended already
		p.Stop(syscall.SIGTERM, stopGrace)
		return nil
	})
	if _, err := keep.Write(append(first, '\n')); err != nil {
		s.Stop()
		return nil, errors.Join(err, s.explain())
	}
	if err := s.ready(ctx, out); err != nil {
		s.Stop()
		return nil, errors.Join(err, s.explain())
	}
	return s, nil
}

// ready waits for the line with the address.
func (s *Server) ready(ctx context.Context, out *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { out.SetReadDeadline(time.Unix(1, 0)) })()
	var at address
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("it ended before it was ready: %w", err)
	}
	s.URL, s.control = at.Service, at.Control
	return nil
}

// explain returns the output of a process that failed.
func (s *Server) explain() error {
	if text := strings.TrimSpace(s.log.String()); text != "" {
		return errors.New(text)
	}
	return nil
}

// Stop ends the service and waits for its end. A second Stop does nothing.
func (s *Server) Stop() error { return s.stop() }

// Kill kills the service's process and waits for its end. A Job with MayDie does not
// treat that as an error.
func (s *Server) Kill() error {
	if err := s.proc.SignalGroup(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", s.Variant, err)
	}
	<-s.proc.Ended()
	return nil
}

// Pause suspends the service's process with SIGSTOP, until Continue. Stop still
// works.
func (s *Server) Pause() error { return s.proc.SignalGroup(syscall.SIGSTOP) }

// Continue resumes a paused process.
func (s *Server) Continue() error { return s.proc.SignalGroup(syscall.SIGCONT) }

// Pid returns the id of the service's process.
func (s *Server) Pid() int { return s.proc.Pid() }

// Ended reports whether the service's process has ended.
func (s *Server) Ended() bool {
	select {
	case <-s.proc.Ended():
		return true
	default:
		return false
	}
}

// Hold limits the service to a CPU share; nil sets no limit.
func (s *Server) Hold(share *cpu.Share) error {
	if share == nil {
		return nil
	}
	return share.Add(s.Pid())
}

// Control sends a command to the service's Control handler at path, which begins with
// a slash, and returns the response body.
func (s *Server) Control(ctx context.Context, path string) ([]byte, error) {
	return s.ask(ctx, http.MethodPost, "/control"+path)
}

// ControlFor is Control for commands that may take up to most.
func (s *Server) ControlFor(ctx context.Context, path string, most time.Duration) ([]byte, error) {
	return s.askFor(ctx, http.MethodPost, "/control"+path, most)
}

// Reset returns the service to its initial state, with empty caches.
func (s *Server) Reset(ctx context.Context) error {
	_, err := s.ask(ctx, http.MethodPost, "/reset")
	return err
}

// begin begins a measurement.
func (s *Server) begin(ctx context.Context) error {
	_, err := s.ask(ctx, http.MethodPost, "/begin")
	return err
}

func (s *Server) seen(ctx context.Context) (seen, error) {
	var v seen
	body, err := s.ask(ctx, http.MethodGet, "/seen")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(body, &v)
}

// askTimeout is how long a service has to respond to the lab. Under overload it
// responds late.
const askTimeout = 30 * time.Second

func (s *Server) ask(ctx context.Context, method, path string) ([]byte, error) {
	return s.askFor(ctx, method, path, askTimeout)
}

func (s *Server) askFor(ctx context.Context, method, path string, most time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.control+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the service %s: %w", s.Variant, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("ask the service %s: %w", s.Variant, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the service %s: %s %s: %s: %s", s.Variant, method, path, resp.Status, bytes.TrimSpace(body))
	}
	return body, nil
}

// child returns the command that runs this program in a role.
func (c Config) child(what string) *exec.Cmd {
	cmd := exec.Command(c.Program)
	cmd.Env = append(os.Environ(), role+"="+what)
	return cmd
}
