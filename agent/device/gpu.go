package device

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/internal/canon"
)

// GPUConfig says how GPUs are asked.
type GPUConfig struct {
	// Command starts this program so that it calls [AnswerGPU] with the arguments that follow. It is this very program,
	// so that what the driver says is the word of the measured agent.
	Command []string
	// Switches is a command that prints NVIDIA's evidence file of the switches; {nonce} in it stands for the nonce in hex.
	// Empty: there are no switches.
	Switches []string
	Patience time.Duration // for one answer; zero: GPUPatience
}

// GPUs asks the driver of the machine's GPUs, each time in a process of its own: a driver that hangs, or a library that
// ends its process, costs an answer and not the agent. One question at a time: the driver closes a GPU to confidential work
// after a report that failed. A process that cannot even be killed keeps its turn until it ends, so that they do not pile up.
// Other programs that ask the same driver are not kept away.
type GPUs struct {
	c    GPUConfig
	turn chan struct{} // holds one while a question is out
}

// OpenGPUs touches nothing yet.
func OpenGPUs(c GPUConfig) *GPUs {
	if c.Patience == 0 {
		c.Patience = GPUPatience
	}
	return &GPUs{c: c, turn: make(chan struct{}, 1)}
}

// GPUEvidence is what a machine shows of its GPUs.
type GPUEvidence struct {
	NVML       *attest.NVML       // settings of the machine; nil: the driver knows of no such settings
	Components []attest.Component // of classes gpu and switch, each answering the nonce; none where reports are off
}

// Take collects a report of each GPU that answers the nonce, and those of the switches. A report is returned as received.
// It fails if any device does: evidence of some GPUs would be that of another machine.
func (g *GPUs) Take(nonce canon.Digest) (e GPUEvidence, err error) {
	a, err := g.ask(questionCollect, nonce.String())
	if err != nil {
		return e, err
	}
	e.NVML = a.Settings
	if !a.reports() {
		return e, nil
	}
	for i, d := range a.GPUs {
		c := nvidia.ReadFiles(d.Report, d.Chain)
		c.Label = fmt.Sprintf("%s%d", attest.ClassGPU, i)
		e.Components = append(e.Components, c)
	}
	if len(g.c.Switches) == 0 {
		return e, nil
	}
	switches, err := g.switches(nonce)
	e.Components = append(e.Components, switches...)
	return e, err
}

func (g *GPUs) switches(nonce canon.Digest) ([]attest.Component, error) {
	var command []string
	for _, word := range g.c.Switches {
		command = append(command, strings.ReplaceAll(word, "{nonce}", hex.EncodeToString(nonce[:])))
	}
	out, err := g.run(command)
	if err != nil {
		return nil, fmt.Errorf("switches: %w", err)
	}
	components, err := nvidia.ReadJSON(out)
	if err != nil {
		return nil, fmt.Errorf("switches: %w", err)
	}
	for _, c := range components {
		if c.Class != attest.ClassSwitch {
			return nil, fmt.Errorf("switches: %s is no switch", attest.Printable(c.Label))
		}
	}
	return components, nil
}

// GPUStatus is what the driver says of its GPUs without any report.
type GPUStatus struct {
	NVML *attest.NVML // nil: the driver knows of no such settings
	GPUs []GPU
}

// Status lists the GPUs.
func (g *GPUs) Status() (GPUStatus, error) {
	a, err := g.ask(questionList)
	s := GPUStatus{NVML: a.Settings}
	for _, d := range a.GPUs {
		s.GPUs = append(s.GPUs, d.GPU)
	}
	return s, err
}

// SetReady opens the GPUs to work, or closes them. Only confidential GPUs have such a state; of others it asks nothing.
func (g *GPUs) SetReady(ready bool) error {
	_, err := g.ask(questionReady, fmt.Sprint(ready))
	return err
}

func (g *GPUs) ask(question ...string) (a gpuAnswer, err error) {
	out, err := g.run(append(append([]string(nil), g.c.Command...), question...))
	if err != nil {
		return a, fmt.Errorf("GPU driver: %w", err)
	}
	if err := json.Unmarshal(out, &a); err != nil {
		return gpuAnswer{}, errors.New("GPU driver: the answer cannot be read: its process is of another program")
	}
	return a, nil
}

// run runs a command to its end, or leaves it behind.
func (g *GPUs) run(command []string) ([]byte, error) {
	select {
	case g.turn <- struct{}{}:
	default:
		return nil, errors.New("an earlier question has no answer yet")
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.c.Patience)
	out, words := bounded{limit: maxGPUAnswer}, bounded{limit: maxGPUWords}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	if cmd.Path == DefaultExecutable {
		cmd.Args[0] = os.Args[0] // the path says nothing to those who list processes
	}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &words, gpuGrace
	if err := cmd.Start(); err != nil {
		cancel()
		<-g.turn
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		<-g.turn
		ended <- err
		cancel()
	}()
	stuck := time.NewTimer(g.c.Patience + 2*gpuGrace)
	defer stuck.Stop()
	select {
	case <-stuck.C: // the kernel holds the process; its buffers are not ours to read
		return nil, fmt.Errorf("no answer within %s, and process %d cannot be ended", g.c.Patience, cmd.Process.Pid)
	case err := <-ended:
		switch said := strings.TrimSpace(string(words.kept)); {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, fmt.Errorf("no answer within %s", g.c.Patience)
		case out.full:
			return nil, fmt.Errorf("more than %d bytes of answer", maxGPUAnswer)
		case err != nil && said != "":
			return nil, errors.New(attest.Printable(said))
		case err != nil:
			return nil, err
		}
		return out.kept, nil
	}
}

// bounded keeps what a process prints, and ends it where that is too much.
type bounded struct {
	kept  []byte
	limit int
	full  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.kept)+len(p) > b.limit {
		b.full = true
		return 0, errors.New("too much output")
	}
	b.kept = append(b.kept, p...)
	return len(p), nil
}
