package agent

import (
	"context"
	"fmt"
	"net/http"

	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/client"
)

// TPM is a [Device] whose key a verifier activates before it believes it, and which counts the machine's boots.
type TPM interface {
	Device
	// Epoch is another one after every boot and every sleep of the machine.
	Epoch() (string, error)
	// Endorsement returns what the verifier asks for before it activates the key.
	Endorsement() (device.Endorsement, error)
	// Activate opens the secret of a credential that was made for this TPM and its key.
	Activate(credential, secret []byte) ([]byte, error)
}

// tpmOf returns the TPM among devices, or nil.
func tpmOf(devices []Device) TPM {
	for _, d := range devices {
		if t, ok := d.(TPM); ok {
			return t
		}
	}
	return nil
}

// epoch reads what the TPM counts; without one nothing is counted.
func (a *Agent) epoch() (string, error) {
	if a.tpm == nil {
		return "", nil
	}
	return a.tpm.Epoch()
}

// activate has the verifier activate the TPM's key, once for each start of the agent and of the machine. A refusal does
// not end the round: the evidence stands without it, and the verdict says what that means.
func (a *Agent) activate(ctx context.Context) error {
	if a.tpm == nil || a.activated {
		return nil
	}
	e, err := a.tpm.Endorsement()
	if err != nil {
		return fmt.Errorf("activate the TPM's key: %w", err)
	}
	offer, err := a.c.Server.Activate(ctx, client.ActivationRequest{EKCertificate: e.Certificate, EKPublic: e.EK, AKPublic: e.AK})
	if err != nil {
		return a.refused(err)
	}
	secret, err := a.tpm.Activate(offer.CredentialBlob, offer.EncryptedSecret)
	if err != nil {
		return fmt.Errorf("activate the TPM's key: %w", err)
	}
	done, err := a.c.Server.AnswerActivation(ctx, secret)
	if err != nil {
		return a.refused(err)
	}
	a.activated = true
	a.c.Logger.Info("the verifier activated the TPM's key", "endorsement_key", done.EK.Short(), "key", done.AK.String())
	return nil
}

// refused tells a refusal that trying again does not mend from every other failure.
func (a *Agent) refused(err error) error {
	p := client.AsProblem(err)
	if p == nil || p.Temporary() || p.Status == http.StatusUnauthorized {
		return err
	}
	a.c.Logger.Warn("the verifier does not activate the TPM's key", "error", err)
	return nil
}
