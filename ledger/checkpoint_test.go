package ledger_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/ledger"
)

const origin = "assay.example/log"

func logKey(t testing.TB, name string, key edKey) (note.Signer, note.Verifier) {
	t.Helper()
	signer, err := ledger.LogSigner(name, key.private())
	if err != nil {
		t.Fatal(err)
	}
	vkey, err := ledger.LogVKey(name, key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return signer, verifier
}

func TestCheckpoint(t *testing.T) {
	_, trees := grown(5)
	c := ledger.Checkpoint{Origin: origin, Tree: trees[5]}
	signer, verifier := logKey(t, origin, 1)
	signed, err := ledger.SignCheckpoint(c, signer)
	if err != nil {
		t.Fatal(err)
	}
	good := string(signed)
	_, sameName := logKey(t, origin, 2)
	_, otherName := logKey(t, "other.example/log", 1)
	otherSigner, _ := logKey(t, "other.example/log", 1)
	foreign, err := note.Sign(&note.Note{Text: c.Text()}, otherSigner)
	if err != nil {
		t.Fatal(err)
	}
	witness, _ := logKey(t, "witness.example", 9)
	opened, err := note.Open(signed, note.VerifierList(verifier))
	if err != nil {
		t.Fatal(err)
	}
	cosigned, err := note.Sign(opened, witness)
	if err != nil {
		t.Fatal(err)
	}
	resign := func(text string) string {
		data, err := note.Sign(&note.Note{Text: text}, signer)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, k := range []struct {
		name, data string
		key        note.Verifier
		want       string
	}{
		{"good", good, verifier, ""},
		{"cosigned", string(cosigned), verifier, ""},
		{"another key of that name", good, sameName, "no verifiable signatures"},
		{"another name", good, otherName, "no verifiable signatures"},
		{"another log's name and key", string(foreign), otherName, `checkpoint of "assay.example/log" signed with the key of "other.example/log"`},
		{"altered size", strings.Replace(good, "\n5\n", "\n6\n", 1), verifier, "invalid signature"},
		{"altered signature", good[:len(good)-8] + "AAA" + good[len(good)-5:], verifier, "invalid signature"},
		{"signed, with an extension line", resign(c.Text() + "more\n"), verifier, "three lines"},
		{"signed, with a size of another spelling", resign(strings.Replace(c.Text(), "\n5\n", "\n05\n", 1)), verifier, "three lines"},
		{"signed, size past 2^53", resign(strings.Replace(c.Text(), "\n5\n", "\n9007199254740992\n", 1)), verifier, "out of range"},
		{"signed, short root", resign(origin + "\n5\nAAAA\n"), verifier, "out of range"},
		{"signed, two lines", resign(origin + "\n5\n"), verifier, "checkpoint"},
		{"too long", good + strings.Repeat("— x AAAAAAAA\n", 2000), verifier, "at most 16384"},
		{"empty", "", verifier, "malformed note"},
	} {
		got, err := ledger.OpenCheckpoint([]byte(k.data), k.key)
		check(t, k.name, err, k.want)
		if err == nil && got != c {
			t.Errorf("%s: %+v, want %+v", k.name, got, c)
		}
	}
	if got, err := ledger.ReadCheckpoint(cosigned); err != nil || got != c {
		t.Errorf("read without a key: %+v (%v)", got, err)
	}
	_, err = ledger.ReadCheckpoint([]byte(c.Text()))
	check(t, "read an unsigned text", err, "not a signed note")
	_, err = ledger.SignCheckpoint(c, otherSigner)
	check(t, "sign with another log's key", err, `the key is named "other.example/log"`)
	again, err := ledger.SignCheckpoint(c, signer)
	if err != nil || !bytes.Equal(again, signed) {
		t.Errorf("signed again: other bytes (%v)", err)
	}
}

func TestLogKeys(t *testing.T) {
	pub := edKey(1).Public().(ed25519.PublicKey)
	good, err := ledger.LogVKey(origin, pub)
	if err != nil {
		t.Fatal(err)
	}
	raw := strings.SplitN(good, "+", 3)
	cosigner := base64.StdEncoding.EncodeToString(append([]byte{4}, pub...))
	for _, c := range []struct{ name, vkey, want string }{
		{"good", good, ""},
		{"empty", "", "want origin+hash+key"},
		{"another origin", "x" + good, "want origin+hash+key"},
		{"hash in capitals", raw[0] + "+" + strings.ToUpper(raw[1]) + "+" + raw[2], "want origin+hash+key"},
		{"a cosigner's key", raw[0] + "+" + raw[1] + "+" + cosigner, "want origin+hash+key"},
		{"cut", good[:len(good)-4], "want origin+hash+key"},
	} {
		name, key, err := ledger.ParseLogVKey(c.vkey)
		check(t, c.name, err, c.want)
		if err == nil && (name != origin || !key.Equal(pub)) {
			t.Errorf("%s: %s %x", c.name, name, key)
		}
	}
	for _, bad := range []string{"", "a b", "a+b", strings.Repeat("x", ledger.MaxOrigin+1)} {
		if _, err := ledger.LogVKey(bad, pub); err == nil {
			t.Errorf("origin %.20q: accepted", bad)
		}
		if _, err := ledger.LogSigner(bad, edKey(1).private()); err == nil {
			t.Errorf("signer of origin %.20q: accepted", bad)
		}
	}
}

func FuzzCheckpoint(f *testing.F) {
	_, trees := grown(5)
	f.Add(ledger.Checkpoint{Origin: origin, Tree: trees[5]}.Text())
	f.Add(ledger.Checkpoint{Origin: "x", Tree: trees[0]}.Text())
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ledger.ParseCheckpoint(text)
		if err != nil {
			return
		}
		if c.Text() != text {
			t.Errorf("%q became %q", text, c.Text())
		}
	})
}
