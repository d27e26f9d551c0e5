package server

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/google/go-tpm/tpm2"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// activate sends a node a secret that only the TPM with the endorsement key can open, and only if it holds the
// attestation key too (TPM 2.0 Library part 1, section 24). The endorsement key must be of a maker that this server
// believes. Whose node has that TPM already is not asked here: evidence is judged by the registry.
func (s *Server) activate(ctx context.Context, node string, r client.ActivationRequest) (client.ActivationOffer, error) {
	now := s.time()
	c := s.newCase(now)
	ek, err := tpm.Endorsed(r.EKCertificate, r.EKPublic, &c)
	if err != nil {
		return client.ActivationOffer{}, refuse(codeActivation, "%v", err)
	}
	ak, err := tpm.KeyName(r.AKPublic)
	if err != nil {
		return client.ActivationOffer{}, refuse(codeActivation, "%v", err)
	}
	secret, err := s.draw(activationSecret)
	if err != nil {
		return client.ActivationOffer{}, err
	}
	o := client.ActivationOffer{Expires: now + seconds(ActivationLife)}
	if o.CredentialBlob, o.EncryptedSecret, err = makeCredential(s.random, r.EKPublic, ak, secret); err != nil {
		return client.ActivationOffer{}, refuse(codeActivation, "endorsement key: %v", err)
	}
	hash := hashActivation(secret)
	err = s.store.Tx(ctx, func(tx *Tx) error {
		_, err := tx.SQL.ExecContext(ctx, `INSERT INTO activation_offer(node, ek, ak, hash, expires) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (node) DO UPDATE SET ek = excluded.ek, ak = excluded.ak, hash = excluded.hash, expires = excluded.expires`,
			node, ek[:], ak, hash[:], int64(o.Expires))
		if err != nil {
			return fmt.Errorf("store an activation: %w", err)
		}
		return nil
	})
	return o, err
}

// makeCredential is TPM2_MakeCredential without a TPM. The public area is one that [tpm.Endorsed] has read.
func makeCredential(random io.Reader, ek, ak, secret []byte) (credential, encrypted []byte, err error) {
	public, err := tpm2.Unmarshal[tpm2.TPMTPublic](ek)
	if err != nil {
		return nil, nil, err
	}
	key, err := tpm2.ImportEncapsulationKey(public)
	if err != nil {
		return nil, nil, err
	}
	return tpm2.CreateCredential(random, key, ak, secret)
}

func hashActivation(secret []byte) canon.Digest { return canon.Hash("assay/activation/v1", secret) }

// activated takes the opened secret. Whatever comes ends the offer: who guesses does so once.
func (s *Server) activated(ctx context.Context, node string, secret []byte) (client.Activated, error) {
	var done client.Activated
	refusal := refuse(codeActivation, "no activation is open: ask for one")
	err := s.store.Tx(ctx, func(tx *Tx) error {
		now := s.time()
		var ek canon.Digest
		var ak, hash []byte
		var expires int64
		err := tx.SQL.QueryRowContext(ctx, `SELECT ek, ak, hash, expires FROM activation_offer WHERE node = $1`+s.store.db.ForUpdate(), node).Scan(&ek, &ak, &hash, &expires)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read an activation: %w", err)
		}
		if _, err := tx.SQL.ExecContext(ctx, `DELETE FROM activation_offer WHERE node = $1`, node); err != nil {
			return fmt.Errorf("end an activation: %w", err)
		}
		given := hashActivation(secret)
		switch {
		case int64(now) >= expires:
			refusal = refuse(codeActivation, "it expired at %s, it is %s: ask for another", canon.Time(expires), now)
			return nil
		case subtle.ConstantTimeCompare(given[:], hash) != 1:
			refusal = refuse(codeActivation, "another secret was sent: the offer is ended")
			return nil
		}
		refusal, done = nil, client.Activated{EK: ek, AK: ak}
		return s.record(ctx, tx, node, done, now)
	})
	if err == nil && refusal != nil {
		err = refusal
	}
	if err == nil {
		s.log.Info("key activated", "node", node, "ek", done.EK.Short())
	}
	return done, err
}

// record stores an activation and logs it.
func (s *Server) record(ctx context.Context, tx *Tx, node string, a client.Activated, now canon.Time) error {
	if err := putActivation(ctx, tx.SQL, node, a.AK, a.EK, now); err != nil {
		return err
	}
	return logEnrolment(ctx, tx, ledger.Enrolment{
		Type: ledger.EnrolmentType, Node: node, Basis: ledger.BasisActivation, EK: a.EK, AK: a.AK, Verifier: s.origin,
	}, now)
}

// known adds to an expectation what this server knows of a node's TPM: the keys that it activated last, and what quotes of
// evidence that was received before said of its clock.
func (s *Server) known(ctx context.Context, e *attest.Expect, node string, received canon.Time) error {
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT ak, ek FROM activation WHERE node = $1 ORDER BY activated DESC, ak LIMIT $2`, node, MaxActivations)
	if err != nil {
		return fmt.Errorf("read activations: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		a := attest.Activation{Verifier: s.origin}
		if err := rows.Scan((*[]byte)(&a.AK), &a.EK); err != nil {
			return fmt.Errorf("read activations: %w", err)
		}
		e.Activations = append(e.Activations, a)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return fmt.Errorf("read activations: %w", err)
	}
	// Of evidence of one second nobody knows which was first.
	clocks, err := s.store.db.Reader().QueryContext(ctx, `SELECT ak, resets, restarts, clock FROM tpm_clock WHERE node = $1 AND received < $2
		ORDER BY received DESC, ak LIMIT $3`, node, int64(received), MaxActivations)
	if err != nil {
		return fmt.Errorf("read clocks: %w", err)
	}
	defer clocks.Close()
	for clocks.Next() {
		var c attest.TPMClock
		if err := clocks.Scan((*[]byte)(&c.AK), &c.ResetCount, &c.RestartCount, &c.Clock); err != nil {
			return fmt.Errorf("read clocks: %w", err)
		}
		e.Clocks = append(e.Clocks, c)
	}
	return clocks.Err()
}
