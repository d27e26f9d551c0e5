package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/boot"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/image"
)

// guestState is forgotten with the guest: its host hands in the node again, and the checkpoint starts anew.
const guestState = "/run/assay-agent"

// firstProcess is the life of a guest whose only program is the agent. It returns only where the machine cannot be
// stopped: the end of the agent is the end of its guest.
func firstProcess(ctx context.Context, console io.Writer) {
	say := func(format string, args ...any) { fmt.Fprintf(console, "assay-agent: "+format+"\n", args...) }
	if err := guest(ctx, console, say); err != nil {
		say("error: %v", err)
	}
	say("powering off")
	if err := boot.PowerOff(); err != nil {
		say("error: %v", err)
	}
}

func guest(ctx context.Context, console io.Writer, say func(string, ...any)) error {
	if err := boot.Mount(); err != nil {
		return err
	}
	self, err := device.Executable(device.DefaultExecutable)
	if err != nil {
		return err
	}
	pins, err := guestPins("/" + image.PinsPath)
	if err != nil {
		return err
	}
	if pins == nil {
		say("the only program of this guest, executable %s, believes the verifier that its host names", self)
	} else {
		say("the only program of this guest, executable %s, believes %s", self, pins.Origin)
	}
	// A guest without some module may still prove itself; what is missing says so in its round.
	faults := boot.Load("/" + image.ModulesPath)
	if err := boot.MountConfigfs(); err != nil {
		faults = append(faults, err)
	}
	for _, err := range faults {
		say("%v", err)
	}
	node, err := guestNode(pins)
	if err != nil {
		return err
	}
	say("node %s of %s", node.Node, node.Origin)
	logger := slog.New(slog.NewTextHandler(console, nil))
	i, err := boot.Interface()
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	go boot.Network(ctx, i, rand.Reader, logger, ready)
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
	}
	store := agent.OpenStore(guestState)
	if err := errors.Join(store.Prepare(), store.SaveNode(node)); err != nil {
		return err
	}
	a, err := newAgent(guestState, []agent.Device{device.OpenTSM(device.DefaultTSM)}, nil, agent.DefaultInterval, logger)
	if err != nil {
		return err
	}
	if err := a.Run(ctx, nil); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// guestPins reads whom the image believes, nil where it leaves that to the host.
func guestPins(path string) (*agent.Pins, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pins, err := agent.ParsePins(data)
	return &pins, err
}

// guestNode takes from the host which node this guest is.
func guestNode(pins *agent.Pins) (agent.Node, error) {
	data, err := boot.Node()
	if err != nil {
		return agent.Node{}, err
	}
	node, err := agent.ParseNode(data)
	if err != nil {
		return agent.Node{}, fmt.Errorf("node from the host: %w", err)
	}
	if pins == nil {
		return node, nil
	}
	return pins.Admit(node)
}
