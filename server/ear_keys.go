package server

import (
	"context"
	"crypto/x509"
	"database/sql"
	"encoding/asn1"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/go-jose/go-jose/v4"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/server/keyring"
	"github.com/assay-network/assay/verifier"
)

// Keys of attestation results are apart from the keys of the log: no entry names them, they change as often as the operator
// likes, and relying parties find them at /.well-known/jwks.json. Each is P-256, since ES256 is what every JWT library
// reads.
//
// The database says which key signs, so that all processes change at once. A key that was retired signs nothing more, its
// file is removed, and it stays published until the last result of it has expired.

// beginEAR makes the first key, or another one where the settings ask for it. The file is on the disk before the row
// that names it; a crash between the two leaves a file that nothing names.
func (s *Server) beginEAR(ctx context.Context) error {
	id, err := s.earKeyID(ctx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	renew, err := s.settings.renewals()
	if err != nil {
		return err
	}
	if id == "" || renew.ear {
		if err := s.newEARKey(ctx, id); err != nil {
			return fmt.Errorf("key of attestation results: %w", err)
		}
	}
	retired, err := s.earKeys(ctx, `retired <> 0`)
	if err != nil {
		return err
	}
	for _, k := range retired {
		id, err := canon.ParseDigest(k.KeyID)
		if err != nil {
			return fmt.Errorf("damaged database: key of attestation results: %w", err)
		}
		if err := s.ring.Forget(keyring.UseEAR, id); err != nil {
			return err
		}
	}
	return nil
}

// newEARKey makes a key that signs in place of the one named; a crash before the row that names it leaves a file that
// nothing names; of several processes that do so at once, one does.
func (s *Server) newEARKey(ctx context.Context, instead string) error {
	key, err := s.ring.Make(keyring.UseEAR)
	if err != nil {
		return err
	}
	id := key.ID().String()
	made := false
	err = s.store.Tx(ctx, func(tx *Tx) error {
		made = false
		now := int64(s.time())
		if err := holdServer(ctx, tx.SQL); err != nil {
			return err
		}
		var signs string
		err := tx.SQL.QueryRowContext(ctx, `SELECT id FROM ear_key WHERE retired = 0`).Scan(&signs)
		if err != nil && !errors.Is(err, sql.ErrNoRows) || signs != instead {
			return err
		}
		if _, err := tx.SQL.ExecContext(ctx, `UPDATE ear_key SET retired = $1 WHERE retired = 0`, now); err != nil {
			return err
		}
		made = true
		_, err = tx.SQL.ExecContext(ctx, `INSERT INTO ear_key(id, spki, made, retired) VALUES ($1, $2, $3, 0)`, id, key.SPKI(), now)
		return err
	})
	if err != nil || !made {
		return s.dropKey(err, keyring.UseEAR, key.ID())
	}
	return nil
}

// earKeyID returns the id of the key that signs.
func (s *Server) earKeyID(ctx context.Context) (id string, err error) {
	if err = s.store.db.Reader().QueryRowContext(ctx, `SELECT id FROM ear_key WHERE retired = 0`).Scan(&id); err != nil {
		return "", fmt.Errorf("look up the key of attestation results: %w", err)
	}
	return id, nil
}

// earKeys returns public keys that a condition holds for, newest first.
func (s *Server) earKeys(ctx context.Context, where string, args ...any) ([]jose.JSONWebKey, error) {
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT id, spki FROM ear_key WHERE `+where+` ORDER BY made DESC, id`, args...)
	if err != nil {
		return nil, fmt.Errorf("read keys of attestation results: %w", err)
	}
	defer rows.Close()
	keys := []jose.JSONWebKey{}
	for rows.Next() {
		k := jose.JSONWebKey{Algorithm: string(jose.ES256), Use: "sig"}
		var spki []byte
		if err := rows.Scan(&k.KeyID, &spki); err != nil {
			return nil, fmt.Errorf("read keys of attestation results: %w", err)
		}
		if k.Key, err = x509.ParsePKIXPublicKey(spki); err != nil {
			return nil, fmt.Errorf("damaged database: key of attestation results %s: %w", k.KeyID, err)
		}
		keys = append(keys, k)
	}
	return keys, rows.Err()
}

// jwks returns the keys that a result which is still valid may be signed with (RFC 7517).
func (s *Server) jwks(ctx context.Context) ([]byte, error) {
	keys, err := s.earKeys(ctx, `retired = 0 OR retired > $1`, int64(s.time()-verifier.MaxEARLife-seconds(EARSlack)))
	if err != nil {
		return nil, err
	}
	return stdjson.Marshal(jose.JSONWebKeySet{Keys: keys})
}

// signEAR signs the claims of an attestation result with the key of the moment.
func (s *Server) signEAR(ctx context.Context, claims []byte) ([]byte, error) {
	keys, err := s.earKeys(ctx, `retired = 0`)
	if err != nil {
		return nil, err
	}
	if len(keys) != 1 {
		return nil, errors.New("no key of attestation results")
	}
	id := keys[0].KeyID
	spki, err := x509.MarshalPKIXPublicKey(keys[0].Key)
	if err != nil {
		return nil, err
	}
	k, err := s.ring.Find(keyring.UseEAR, spki)
	if errors.Is(err, keyring.ErrNotHeld) {
		return nil, fmt.Errorf("%w; processes that share a database share their keys", err)
	}
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: earSigner{k, id}}, (&jose.SignerOptions{}).WithType(earJWTType))
	if err != nil {
		return nil, err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return nil, err
	}
	text, err := signed.CompactSerialize()
	return []byte(text), err
}

// earSigner lets go-jose sign with a key wherever it is kept. It is a [jose.OpaqueSigner].
type earSigner struct {
	key *keyring.Key
	id  string
}

func (e earSigner) Public() *jose.JSONWebKey {
	return &jose.JSONWebKey{Key: e.key.Public(), KeyID: e.id, Algorithm: string(jose.ES256), Use: "sig"}
}

func (e earSigner) Algs() []jose.SignatureAlgorithm { return []jose.SignatureAlgorithm{jose.ES256} }

// SignPayload returns r and s, 32 bytes each (RFC 7518, section 3.4); the key signs in ASN.1 form.
func (e earSigner) SignPayload(payload []byte, _ jose.SignatureAlgorithm) ([]byte, error) {
	der, err := e.key.Sign(payload)
	if err != nil {
		return nil, err
	}
	var sig struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(der, &sig); err != nil || len(rest) > 0 || sig.R.Sign() <= 0 || sig.S.Sign() <= 0 || max(sig.R.BitLen(), sig.S.BitLen()) > 256 {
		return nil, errors.New("sign an attestation result: the key gave no P-256 signature")
	}
	out := make([]byte, 64)
	sig.R.FillBytes(out[:32])
	sig.S.FillBytes(out[32:])
	return out, nil
}
