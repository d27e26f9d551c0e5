package nvidia

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	cb "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/assay-network/assay/attest"
)

// Extensions of the certificate of a device's key (TCG DICE Attestation Architecture; DMTF DSP0274, device name).
var (
	oidCompositeDeviceID = asn1.ObjectIdentifier{2, 23, 133, 5, 4, 1}
	oidDiceTCBInfo       = asn1.ObjectIdentifier{2, 23, 133, 5, 4, 1, 1}
	oidSAN               = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidDMTFDevice        = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 412, 274, 1}
	oidSHA384            = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 2}
)

// nvidiaOUI begins a device's serial: the OUI of NVIDIA.
const nvidiaOUI = "48B02D"

// extensionOf returns the value of an extension, or nil.
func extensionOf(c *x509.Certificate, id asn1.ObjectIdentifier) []byte {
	for _, e := range c.Extensions { // none stands there twice: crypto/x509 has seen to it
		if e.Id.Equal(id) {
			return e.Value
		}
	}
	return nil
}

// deviceName reads NVIDIA:CHIP:SERIAL from the alternative name of a key's certificate.
func deviceName(c *x509.Certificate, chip string) (serial, fault string) {
	const form = "the alternative name of the key's certificate is not a device name of DMTF"
	der := cryptobyte.String(extensionOf(c, oidSAN))
	var names, other, text cryptobyte.String
	var id asn1.ObjectIdentifier
	tag0 := cb.Tag(0).ContextSpecific().Constructed()
	if !der.ReadASN1(&names, cb.SEQUENCE) || !der.Empty() || !names.ReadASN1(&other, tag0) || !names.Empty() ||
		!other.ReadASN1ObjectIdentifier(&id) || !id.Equal(oidDMTFDevice) || !other.ReadASN1(&text, tag0) || !other.Empty() {
		return "", form
	}
	var name cryptobyte.String
	if !text.ReadASN1(&name, cb.UTF8String) || !text.Empty() {
		return "", form
	}
	digits, ok := strings.CutPrefix(string(name), "NVIDIA:"+chip+":")
	if _, err := hex.DecodeString(digits); !ok || err != nil || len(digits) != 16 || !strings.HasPrefix(digits, nvidiaOUI) {
		return "", "the key's certificate names the device " + attest.Printable(string(name)) + ", want NVIDIA:" + chip + ":" + nvidiaOUI + " and ten hex digits"
	}
	return strings.ToLower(digits), ""
}

// firmwareID reads what the certificate of a device's key says of the firmware that holds it, in either form: a composite
// device id, which names the device's key as well, or TCB info of DICE, whose first id it is. Both nil: it says nothing.
func firmwareID(leaf, device *x509.Certificate) (id []byte, fault string) {
	if v := extensionOf(leaf, oidCompositeDeviceID); v != nil {
		return compositeDeviceID(v, device.RawSubjectPublicKeyInfo)
	}
	if v := extensionOf(leaf, oidDiceTCBInfo); v != nil {
		return diceTCBInfo(v)
	}
	return nil, ""
}

// compositeDeviceID reads SEQUENCE { version, key of the device, SEQUENCE { algorithm, digest } }.
func compositeDeviceID(v, device []byte) (id []byte, fault string) {
	der := cryptobyte.String(v)
	var seq, key cryptobyte.String
	var version int
	if !der.ReadASN1(&seq, cb.SEQUENCE) || !der.Empty() || !seq.ReadASN1Integer(&version) || version != 1 || !seq.ReadASN1Element(&key, cb.SEQUENCE) {
		return nil, "the composite device id does not parse"
	}
	if !bytes.Equal(key, device) {
		return nil, "the composite device id names another key than the device's certificate"
	}
	if id = readFWID(&seq); id == nil || !seq.Empty() {
		return nil, "the composite device id does not parse"
	}
	return id, ""
}

// diceTCBInfo reads SEQUENCE { vendor [0], model [1], version [2], svn [3], layer [4], index [5], fwids [6], … }.
func diceTCBInfo(v []byte) (id []byte, fault string) {
	der := cryptobyte.String(v)
	var seq, vendor, fwids cryptobyte.String
	if !der.ReadASN1(&seq, cb.SEQUENCE) || !der.Empty() || !seq.ReadASN1(&vendor, cb.Tag(0).ContextSpecific()) {
		return nil, "the TCB info does not parse"
	}
	if string(vendor) != "NVIDIA" {
		return nil, "the TCB info is of vendor " + attest.Printable(string(vendor))
	}
	for tag := range 5 {
		if !seq.SkipOptionalASN1(cb.Tag(tag + 1).ContextSpecific()) {
			return nil, "the TCB info does not parse"
		}
	}
	if !seq.ReadASN1(&fwids, cb.Tag(6).ContextSpecific().Constructed()) {
		return nil, "the TCB info has no firmware id"
	}
	if id = readFWID(&fwids); id == nil {
		return nil, "the TCB info does not parse"
	}
	return id, ""
}

// readFWID reads SEQUENCE { algorithm, digest } of SHA-384.
func readFWID(s *cryptobyte.String) []byte {
	var fwid, digest cryptobyte.String
	var alg asn1.ObjectIdentifier
	if !s.ReadASN1(&fwid, cb.SEQUENCE) || !fwid.ReadASN1ObjectIdentifier(&alg) || !alg.Equal(oidSHA384) ||
		!fwid.ReadASN1(&digest, cb.OCTET_STRING) || !fwid.Empty() || len(digest) != MeasurementSize {
		return nil
	}
	return digest
}
