package main

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

func collectCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "collect --nonce HEX",
		Short: "Take evidence over a nonce and print the bundle",
		Long: `Takes evidence of this machine over a nonce and prints the signed bundle, offline. The nonce is N, the digest of a
challenge: 64 hex digits. The session keys are drawn for this bundle and forgotten with it.`,
		Example: "  assay-agent collect --nonce $(openssl rand -hex 32) > bundle.json",
		Args:    cobra.NoArgs,
	}
	devices := addDeviceFlags(c)
	nonce := c.Flags().String("nonce", "", "N, 64 hex digits (required)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		challenge, err := canon.ParseDigest(*nonce)
		if err != nil {
			return hinted(fmt.Errorf("nonce: %w", err), "--nonce takes 64 lower-case hex digits")
		}
		boot, err := device.BootID(device.DefaultBootID)
		if err != nil {
			return err
		}
		self, err := device.Executable(device.DefaultExecutable)
		if err != nil {
			return err
		}
		session, err := agent.NewSession(rand.Reader, boot, time.Now())
		if err != nil {
			return err
		}
		var gpus []agent.GPUs
		if g, ok := devices.openGPUs(); ok {
			gpus = append(gpus, g)
		}
		bundle, err := agent.Collect(devices.open(), session.Keys(), challenge,
			attest.Statement{Type: attest.StatementType, Agent: self, BootID: boot}, gpus...)
		if err != nil {
			return hinted(err, "assay-agent doctor says what is missing")
		}
		envelope, err := attest.SealBundle(bundle, session)
		if err != nil {
			return err
		}
		data, err := canon.Marshal(envelope)
		if err != nil {
			return err
		}
		_, err = c.OutOrStdout().Write(data) // no line end: these are the canonical bytes
		return err
	}
	return c
}
