// Package benchmark answers a verifier's benchmarks (package market/capacity) on a provider's machine.
//
// The work is done by a driver, a program of its own: it fills memory, and a machine that has less than was claimed ends
// the driver and not the agent. [CPU] is the driver of this build; a driver for another device speaks the same interface
// (DRIVER.md). [Driver] is the agent's end of it, and [Loop] answers what a verifier plans.
package benchmark

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/capacity"
)

// Limits on what a driver may say.
const (
	MaxLine   = 2 * capacity.MaxOpening // bytes of one line
	MaxStderr = 4 << 10                 // bytes of its words that are kept
	MaxWords  = 512                     // bytes of an error that it reports
)

// Order is a line that a driver reads. It has one member.
type Order struct {
	Shape     *capacity.Shape     `json:"shape,omitzero"`     // first: take the memory that a chain of this shape fills
	Challenge *capacity.Challenge `json:"challenge,omitzero"` // second: compute the chain, of that shape
	Draw      *capacity.Draw      `json:"draw,omitzero"`      // third: open what is drawn
}

// Report is a line that a driver writes. It has one member.
type Report struct {
	Ready   string            `json:"ready,omitzero"`   // the memory is taken; the value names what computes
	Step    int               `json:"step,omitzero"`    // so many steps are done
	Roots   []byte            `json:"roots,omitzero"`   // of all steps, 32 bytes each
	Opening *capacity.Opening `json:"opening,omitzero"` // last
	Error   string            `json:"error,omitzero"`   // why there will be nothing more
}

func (r Report) members() (n int) {
	for _, there := range []bool{r.Ready != "", r.Step != 0, r.Roots != nil, r.Opening != nil, r.Error != ""} {
		if there {
			n++
		}
	}
	return n
}

// Driver is a running driver. One goroutine uses it.
type Driver struct {
	Device string // what computes, in the driver's words

	cmd   *exec.Cmd
	stop  context.CancelFunc
	in    io.WriteCloser
	out   *bufio.Scanner
	words tail
	shape capacity.Shape
}

// Start starts a driver and has it take its memory. The driver ends with the context, or by Close.
func Start(ctx context.Context, command []string, shape capacity.Shape) (*Driver, error) {
	if len(command) == 0 {
		return nil, errors.New("benchmark: no driver")
	}
	if err := shape.Validate(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	d := &Driver{cmd: exec.CommandContext(ctx, command[0], command[1:]...), stop: stop, shape: shape}
	d.cmd.Stderr = &d.words
	in, err := d.cmd.StdinPipe()
	if err == nil {
		var out io.ReadCloser
		if out, err = d.cmd.StdoutPipe(); err == nil {
			d.in, d.out = in, bufio.NewScanner(out)
			d.out.Buffer(nil, MaxLine)
			err = d.cmd.Start()
		}
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("benchmark: driver %s: %w", command[0], err)
	}
	r, err := d.ask(Order{Shape: &shape}, nil)
	if err == nil && r.Ready == "" {
		err = d.fault("it did not say that it is ready")
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	d.Device = r.Ready
	return d, nil
}

// Compute has the chain of a challenge computed, and returns the roots of its steps. progress is told of steps; nil is
// fine.
func (d *Driver) Compute(c capacity.Challenge, progress func(step int)) ([]byte, error) {
	if c.Shape != d.shape {
		return nil, fmt.Errorf("benchmark: a challenge of the shape %+v, announced was %+v", c.Shape, d.shape)
	}
	r, err := d.ask(Order{Challenge: &c}, progress)
	if err != nil {
		return nil, err
	}
	if len(r.Roots) != len(canon.Digest{})*c.Shape.Steps {
		return nil, d.fault("%d bytes of roots, want %d", len(r.Roots), len(canon.Digest{})*c.Shape.Steps)
	}
	return r.Roots, nil
}

// Open has a draw opened, and returns the canonical bytes of the opening. It does not check it.
func (d *Driver) Open(draw capacity.Draw) ([]byte, error) {
	r, err := d.ask(Order{Draw: &draw}, nil)
	if err != nil {
		return nil, err
	}
	if r.Opening == nil {
		return nil, d.fault("it did not open what was drawn")
	}
	return canon.Marshal(*r.Opening)
}

// Close ends the driver, whatever it is doing.
func (d *Driver) Close() {
	d.stop()
	d.in.Close()
	d.cmd.Wait() // that it was ended is no news
}

// ask gives an order and reads until there is an answer that is no progress.
func (d *Driver) ask(o Order, progress func(step int)) (Report, error) {
	line, err := canon.Marshal(o)
	if err != nil {
		return Report{}, fmt.Errorf("benchmark: %w", err)
	}
	// One that has ended does not take it; what it said before is read all the same, and then how it ended.
	_, _ = d.in.Write(append(line, '\n'))
	for d.out.Scan() {
		var r Report
		if err := canon.Unmarshal(d.out.Bytes(), &r); err != nil {
			return Report{}, d.fault("%v", err)
		}
		if r.members() != 1 || r.Step < 0 {
			return Report{}, d.fault("a report of %d members, want one", r.members())
		}
		switch {
		case r.Error != "":
			return Report{}, d.fault("%.*s", MaxWords, r.Error)
		case r.Step == 0:
			return r, nil
		case progress != nil:
			progress(r.Step)
		}
	}
	if err := d.out.Err(); err != nil {
		return Report{}, d.fault("%v", err)
	}
	return Report{}, d.ended()
}

func (d *Driver) fault(format string, args ...any) error {
	return fmt.Errorf("benchmark: driver %s: %s", d.cmd.Path, fmt.Sprintf(format, args...))
}

// ended says how a driver ended that should not have.
func (d *Driver) ended() error {
	d.in.Close()
	how := "it ended"
	if err := d.cmd.Wait(); err != nil {
		how = err.Error()
		if strings.Contains(how, "signal: killed") {
			how += ": the kernel ends it where memory runs out"
		}
	}
	if words := strings.TrimSpace(string(d.words.data)); words != "" {
		how += ": " + words
	}
	return d.fault("%s", how)
}

// tail keeps the first of what a driver says to people.
type tail struct{ data []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.data = append(t.data, b[:min(len(b), MaxStderr-len(t.data))]...)
	return len(b), nil
}
