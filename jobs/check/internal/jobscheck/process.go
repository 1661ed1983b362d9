package jobscheck

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// A process is one part of a run, through all its lives.
type process struct {
	role   string
	name   string
	folder string
	j      *journal
	config func() config // for the next life

	mu    sync.Mutex
	life  int            // guarded by mu
	cmd   *exec.Cmd      // guarded by mu; nil: not running
	stdin io.WriteCloser // guarded by mu
	ended chan struct{}  // guarded by mu; closed once the life is over
}

func (p *process) lifeName(life int) string { return fmt.Sprintf("%s.%d", p.name, life) }

// start begins another life.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life++
	c := p.config()
	c.Role, c.Name = p.role, p.lifeName(p.life)
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(p.folder, p.name+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = out, out
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	p.j.note(event{What: up, Name: c.Name})
	// The goroutine ends with the process.
	go func(ended chan struct{}) {
		defer close(ended)
		e := event{What: gone, Name: c.Name}
		if err := cmd.Wait(); err != nil {
			e.Err = err.Error()
		}
		p.j.note(e)
	}(p.ended)
	return nil
}

// signal logs the signal and sends it to the process.
func (p *process) signal(w what, s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Log it before sending if it begins a fault, and afterwards if it ends one.
	if w != continued {
		p.j.note(event{What: w, Name: p.lifeName(p.life)})
	}
	err := p.cmd.Process.Signal(s)
	if w == continued {
		p.j.note(event{What: w, Name: p.lifeName(p.life)})
	}
	return err
}

// kill kills this life at once, and waits for its end.
func (p *process) kill() error {
	if err := p.signal(killed, syscall.SIGKILL); err != nil {
		return err
	}
	<-p.over()
	return nil
}

// tell writes a command.
func (p *process) tell(c command) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c == tellStop {
		p.j.note(event{What: asked, Name: p.lifeName(p.life)})
	}
	_, err := fmt.Fprintln(p.stdin, c)
	return err
}

// over returns a channel that is closed once this life has ended.
func (p *process) over() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}
