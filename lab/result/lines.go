package result

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A line is a line of a run's file: exactly one field is set.
type line struct {
	Head     *Head     `json:"run,omitempty"`
	Scenario *Scenario `json:"scenario,omitempty"`
}

// A Writer writes a run, line by line, as it is measured.
type Writer struct{ enc *json.Encoder }

// NewWriter returns a Writer that has written the head to w.
func NewWriter(w io.Writer, h Head) (*Writer, error) {
	out := &Writer{json.NewEncoder(w)}
	return out, out.write(line{Head: &h})
}

// Scenario writes the result of a scenario.
func (w *Writer) Scenario(s Scenario) error { return w.write(line{Scenario: &s}) }

func (w *Writer) write(l line) error {
	if err := w.enc.Encode(l); err != nil {
		return fmt.Errorf("result: write: %w", err)
	}
	return nil
}

// MaxLine is the longest line that Read accepts. A scenario with all its
// distributions and series takes about a megabyte.
const MaxLine = 64 << 20

// Read reads the output of a Writer. If a scenario or the head is repeated, the last
// one counts, so files can be concatenated.
func Read(r io.Reader) (Run, error) {
	var run Run
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxLine)
	for n := 1; lines.Scan(); n++ {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return Run{}, fmt.Errorf("result: line %d: %w", n, err)
		}
		switch {
		case l.Head != nil:
			run.Head = *l.Head
		case l.Scenario != nil:
			run.Put(*l.Scenario)
		default:
			return Run{}, fmt.Errorf("result: line %d is neither a run's head nor a scenario", n)
		}
	}
	if err := lines.Err(); err != nil {
		return Run{}, fmt.Errorf("result: read: %w", err)
	}
	if run.Head.StartedAt.IsZero() {
		return Run{}, errors.New("result: no head of a run; is this a result file of the lab?")
	}
	return run, nil
}

// Put adds a scenario, or replaces the one with its name.
func (r *Run) Put(s Scenario) {
	for i := range r.Scenarios {
		if r.Scenarios[i].Name == s.Name {
			r.Scenarios[i] = s
			return
		}
	}
	r.Scenarios = append(r.Scenarios, s)
}
