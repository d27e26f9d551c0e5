package device

import (
	"bytes"
	"crypto/sha256"
	"encoding/asn1"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxtpm"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/files"
)

// Where Linux shows the TPM, by its resource manager, and the logs of what was measured into it.
const (
	DefaultTPM      = "/dev/tpmrm0"
	DefaultEventLog = "/sys/kernel/security/tpm0/binary_bios_measurements"
	DefaultIMA      = "/sys/kernel/security/integrity/ima/binary_runtime_measurements"
)

// SocketPrefix begins the name of a TPM that answers on a unix socket, as swtpm does.
const SocketPrefix = "unix:"

// endorsementIndex is where makers put the certificate of the RSA 2048 endorsement key (TCG EK Credential Profile 2.5,
// section 2.2.1.4).
const endorsementIndex tpm2.TPMHandle = 0x01c00002

// registers are quoted: what firmware, boot loader, kernel and shim measure, and the kernel's list of files.
var registers = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, eventlog.IMARegister, 14}

// attestationKey is a key that signs nothing but what the TPM itself says. As a primary key it follows from the TPM's
// seed and this template: it is made anew for every use, is the same each time, and takes no place in the TPM.
var attestationKey = tpm2.TPMTPublic{
	Type: tpm2.TPMAlgECC, NameAlg: tpm2.TPMAlgSHA256,
	ObjectAttributes: tpm2.TPMAObject{FixedTPM: true, FixedParent: true, SensitiveDataOrigin: true, UserWithAuth: true, NoDA: true, Restricted: true, SignEncrypt: true},
	Parameters: tpm2.NewTPMUPublicParms(tpm2.TPMAlgECC, &tpm2.TPMSECCParms{
		Scheme:  tpm2.TPMTECCScheme{Scheme: tpm2.TPMAlgECDSA, Details: tpm2.NewTPMUAsymScheme(tpm2.TPMAlgECDSA, &tpm2.TPMSSigSchemeECDSA{HashAlg: tpm2.TPMAlgSHA256})},
		CurveID: tpm2.TPMECCNistP256,
	}),
}

// TPMConfig says where a TPM and its logs are.
type TPMConfig struct {
	Device   string // path of the device, or unix:SOCKET
	EventLog string // TCG log of the boot; a file that is not there is left out of the evidence
	IMA      string // list of the files that the kernel read; likewise
}

// TPM is this machine's TPM 2.0. It keeps nothing open and nothing loaded between calls: whatever a call loads, it
// flushes, since a TPM without a resource manager has room for three keys. Calls wait for one another.
type TPM struct {
	c  TPMConfig
	mu *sync.Mutex // held while the TPM is open
}

// OpenTPM returns the TPM. It touches nothing yet.
func OpenTPM(c TPMConfig) TPM { return TPM{c, new(sync.Mutex)} }

// Class returns the class of its components.
func (TPM) Class() string { return attest.ClassTPM }

func (t TPM) use(do func(transport.TPM) error) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var dev transport.TPMCloser
	if socket, ok := strings.CutPrefix(t.c.Device, SocketPrefix); ok {
		dev, err = linuxudstpm.Open(socket)
	} else {
		dev, err = linuxtpm.Open(t.c.Device)
	}
	if err != nil {
		return fmt.Errorf("TPM: %w", err)
	}
	if err := errors.Join(do(dev), dev.Close()); err != nil {
		return fmt.Errorf("TPM: %w", err)
	}
	return nil
}

// loaded is a key that takes a place in the TPM until it is flushed.
type loaded struct {
	tpm2.NamedHandle
	public []byte // TPMT_PUBLIC
}

func load(dev transport.TPM, hierarchy tpm2.TPMHandle, template tpm2.TPMTPublic) (loaded, error) {
	r, err := tpm2.CreatePrimary{PrimaryHandle: hierarchy, InPublic: tpm2.New2B(template)}.Execute(dev)
	if err != nil {
		return loaded{}, fmt.Errorf("create primary key: %w", err)
	}
	return loaded{tpm2.NamedHandle{Handle: r.ObjectHandle, Name: r.Name}, r.OutPublic.Bytes()}, nil
}

func loadAK(dev transport.TPM) (loaded, error) { return load(dev, tpm2.TPMRHOwner, attestationKey) }

func loadEK(dev transport.TPM) (loaded, error) {
	return load(dev, tpm2.TPMRHEndorsement, tpm2.RSAEKTemplate)
}

func (k loaded) flush(dev transport.TPM) error {
	if _, err := (tpm2.FlushContext{FlushHandle: k.Handle}).Execute(dev); err != nil {
		return fmt.Errorf("flush key: %w", err)
	}
	return nil
}

// Epoch names the TPM's counts of resets and restarts (TPM 2.0 Library part 1, section 36.7). It is another one after
// every boot and every sleep of the machine, and after the TPM was cleared.
func (t TPM) Epoch() (epoch string, err error) {
	err = t.use(func(dev transport.TPM) error {
		r, err := tpm2.ReadClock{}.Execute(dev)
		if err != nil {
			return fmt.Errorf("read clock: %w", err)
		}
		info := r.CurrentTime.ClockInfo
		epoch = fmt.Sprintf("resets:%d restarts:%d", info.ResetCount, info.RestartCount)
		return nil
	})
	return epoch, err
}

// Endorsement is what a verifier wants to see before it activates the attestation key.
type Endorsement struct {
	Certificate []byte // of the endorsement key (DER); empty: the maker put none into the TPM
	EK, AK      []byte // public areas (TPMT_PUBLIC)
}

// Endorsement returns the TPM's endorsement key and its attestation key.
func (t TPM) Endorsement() (e Endorsement, err error) {
	err = t.use(func(dev transport.TPM) (err error) {
		if e.Certificate, err = endorsementCertificate(dev); err != nil {
			return err
		}
		for _, want := range []struct {
			load func(transport.TPM) (loaded, error)
			into *[]byte
		}{{loadEK, &e.EK}, {loadAK, &e.AK}} {
			key, err := want.load(dev)
			if err != nil {
				return err
			}
			*want.into = key.public
			if err := key.flush(dev); err != nil {
				return err
			}
		}
		return nil
	})
	return e, err
}

// Activate opens a credential: the TPM gives the secret out only if it holds the endorsement key that the secret was
// encrypted to and, beside it, the attestation key that it was made for (part 1, section 24).
func (t TPM) Activate(credential, secret []byte) (opened []byte, err error) {
	err = t.use(func(dev transport.TPM) (err error) {
		ek, err := loadEK(dev)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ek.flush(dev)) }()
		ak, err := loadAK(dev)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ak.flush(dev)) }()
		r, err := tpm2.ActivateCredential{
			ActivateHandle: tpm2.AuthHandle{Handle: ak.Handle, Name: ak.Name, Auth: tpm2.PasswordAuth(nil)},
			KeyHandle:      tpm2.AuthHandle{Handle: ek.Handle, Name: ek.Name, Auth: tpm2.Policy(tpm2.TPMAlgSHA256, 16, endorsementPolicy)},
			CredentialBlob: tpm2.TPM2BIDObject{Buffer: credential},
			Secret:         tpm2.TPM2BEncryptedSecret{Buffer: secret},
		}.Execute(dev)
		if err != nil {
			return fmt.Errorf("activate credential: %w", err)
		}
		opened = r.CertInfo.Buffer
		return nil
	})
	return opened, err
}

// endorsementPolicy satisfies PolicyA of the endorsement key's template: the authorization of the endorsement hierarchy.
func endorsementPolicy(dev transport.TPM, session tpm2.TPMISHPolicy, nonce tpm2.TPM2BNonce) error {
	_, err := tpm2.PolicySecret{AuthHandle: tpm2.TPMRHEndorsement, NonceTPM: nonce, PolicySession: session}.Execute(dev)
	return err
}

// endorsementCertificate reads the certificate that the maker put into the TPM, or nothing where there is none.
func endorsementCertificate(dev transport.TPM) ([]byte, error) {
	area, err := tpm2.NVReadPublic{NVIndex: endorsementIndex}.Execute(dev)
	if errors.Is(err, tpm2.TPMRCHandle) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("endorsement certificate: %w", err)
	}
	contents, err := area.NVPublic.Contents()
	if err != nil {
		return nil, fmt.Errorf("endorsement certificate: %w", err)
	}
	size := int(contents.DataSize)
	if size > attest.MaxCertificate {
		return nil, fmt.Errorf("endorsement certificate: %d bytes, at most %d", size, attest.MaxCertificate)
	}
	var data []byte
	for len(data) < size {
		r, err := tpm2.NVRead{
			AuthHandle: tpm2.AuthHandle{Handle: endorsementIndex, Name: area.NVName, Auth: tpm2.PasswordAuth(nil)},
			NVIndex:    tpm2.NamedHandle{Handle: endorsementIndex, Name: area.NVName},
			Size:       uint16(min(size-len(data), nvChunk)), Offset: uint16(len(data)),
		}.Execute(dev)
		if err != nil {
			return nil, fmt.Errorf("endorsement certificate: %w", err)
		}
		if len(r.Data.Buffer) == 0 {
			return nil, errors.New("endorsement certificate: the TPM gives less than it says")
		}
		data = append(data, r.Data.Buffer...)
	}
	// Some makers leave room behind the certificate.
	var certificate asn1.RawValue
	if _, err := asn1.Unmarshal(data, &certificate); err == nil {
		return certificate.FullBytes, nil
	}
	return data, nil
}

// Take quotes the boot registers over the given data: a component of class tpm. The logs are read after the quote, so
// that they hold all that it does. A quote that raced with a measurement is thrown away and taken anew.
func (t TPM) Take(qualifying []byte) (attest.Component, error) {
	parts := map[string][]byte{}
	err := t.use(func(dev transport.TPM) (err error) {
		if parts[tpm.PartEKCertificate], err = endorsementCertificate(dev); err != nil {
			return err
		}
		ak, err := loadAK(dev)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ak.flush(dev)) }()
		parts[tpm.PartAK] = ak.public
		for range MaxTries {
			settled, err := quote(dev, ak, qualifying, parts)
			if err != nil || settled {
				return err
			}
		}
		return fmt.Errorf("%d tries: a register changes faster than it can be quoted and read", MaxTries)
	})
	if err != nil {
		return attest.Component{}, err
	}
	if parts[tpm.PartEventLog], err = readLog(t.c.EventLog, eventlog.MaxLog); err != nil {
		return attest.Component{}, fmt.Errorf("boot log: %w", err)
	}
	list, err := readLog(t.c.IMA, eventlog.MaxIMAList)
	if err != nil {
		return attest.Component{}, fmt.Errorf("list of files: %w", err)
	}
	if len(list) <= MaxIMAInBundle {
		parts[tpm.PartIMA] = list
	} else {
		digest := sha256.Sum256(list)
		parts[tpm.PartIMADigest] = digest[:]
	}
	c := attest.Component{Class: attest.ClassTPM, MediaType: tpm.MediaType, Label: "tpm0"}
	for _, name := range []string{tpm.PartQuote, tpm.PartSignature, tpm.PartPCRs, tpm.PartAK, tpm.PartEKCertificate, tpm.PartEventLog, tpm.PartIMA, tpm.PartIMADigest} {
		if data := parts[name]; len(data) > 0 {
			c.Parts = append(c.Parts, attest.Part{Name: name, Data: data})
		}
	}
	return c, nil
}

// quote takes one quote and the registers that it is of. It reports whether they are still those that were quoted.
func quote(dev transport.TPM, ak loaded, qualifying []byte, parts map[string][]byte) (settled bool, err error) {
	r, err := tpm2.Quote{
		SignHandle:     tpm2.AuthHandle{Handle: ak.Handle, Name: ak.Name, Auth: tpm2.PasswordAuth(nil)},
		QualifyingData: tpm2.TPM2BData{Buffer: qualifying},
		InScheme:       tpm2.TPMTSigScheme{Scheme: tpm2.TPMAlgNull},
		PCRSelect:      selection(registers),
	}.Execute(dev)
	if err != nil {
		return false, fmt.Errorf("quote: %w", err)
	}
	raw := r.Quoted.Bytes()
	quoted, err := tpm.ParseAttest(raw)
	if err != nil {
		return false, err
	}
	pcrs, err := readPCRs(dev)
	if err != nil {
		return false, err
	}
	parts[tpm.PartQuote], parts[tpm.PartSignature], parts[tpm.PartPCRs] = raw, tpm2.Marshal(r.Signature), tpm.EncodePCRs(pcrs)
	digest, ok := tpm.DigestOf(quoted.Selections, pcrs, eventlog.SHA256)
	return ok && bytes.Equal(digest, quoted.PCRDigest), nil
}

func selection(registers []int) tpm2.TPMLPCRSelection {
	var indices []uint
	for _, i := range registers {
		indices = append(indices, uint(i))
	}
	return tpm2.TPMLPCRSelection{PCRSelections: []tpm2.TPMSPCRSelection{{Hash: tpm2.TPMAlgSHA256, PCRSelect: tpm2.PCClientCompatible.PCRs(indices...)}}}
}

// readPCRs reads the registers: a TPM gives out at most eight at a time.
func readPCRs(dev transport.TPM) (pcrs []tpm.PCR, err error) {
	for rest := registers; len(rest) > 0; {
		some := rest[:min(len(rest), 8)]
		rest = rest[len(some):]
		r, err := tpm2.PCRRead{PCRSelectionIn: selection(some)}.Execute(dev)
		if err != nil {
			return nil, fmt.Errorf("read registers: %w", err)
		}
		if len(r.PCRValues.Digests) != len(some) {
			return nil, fmt.Errorf("read registers: %d of %d: is the bank of SHA-256 active?", len(r.PCRValues.Digests), len(some))
		}
		for i, d := range r.PCRValues.Digests {
			pcrs = append(pcrs, tpm.PCR{Bank: eventlog.SHA256, Index: some[i], Value: d.Buffer})
		}
	}
	return pcrs, nil
}

// readLog reads a log of the kernel's to its end, whatever size its file has; one that is not there is empty.
func readLog(path string, limit int) ([]byte, error) {
	data, err := files.Bounded(path, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
