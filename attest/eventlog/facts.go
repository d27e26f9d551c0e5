package eventlog

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// Fact is one thing that a log shows once its registers are known to hold what it says.
type Fact struct {
	Register int
	Event    int    // number of the event that shows it
	Name     string // one of the names below
	Value    string // text, or hex of a digest; see the name
	Quirk    string // why it is believed although the data does not hash as the specification says; usually empty
}

// Names of facts. Digests are SHA-256, whatever the bank, but for those of loaded code, which are the bank's.
const (
	SecureBoot  = "secure-boot"  // on, off, or unset (an empty variable)
	PK          = "pk"           // digest of the variable's data
	KEK         = "kek"          // digest of the variable's data
	DB          = "db"           // digest of the variable's data: keys that may sign boot code
	DBX         = "dbx"          // digest of the variable's data: what may not boot
	Authority   = "authority"    // digest of the certificate, or db entry, that vouched for code that was started
	SBAT        = "sbat"         // the SbatLevel variable, in its own words
	CommandLine = "command-line" // of the kernel: text
	UKISection  = "uki-section"  // NAME HEX: digest, in the bank, of a section of a unified kernel image
)

// Reading is what the events of a log mean, read in one bank.
type Reading struct {
	Facts  []Fact
	Faults []string // orders of events that no sound firmware writes; each names its event
	Notes  []string // what could not be read; nothing rests on it
}

// reading is one pass over the events.
type reading struct {
	Reading
	kind      Kind
	bank      Algorithm
	border    [2][]byte // digests of the separators of a sound firmware
	exited    []byte    // digest of the action by which the firmware ends
	separated [lastPCR + 1]bool
	left      bool   // the firmware handed over: ExitBootServices returned
	section   string // the UKI section whose content the next event measures
}

// exitedBootServices is the EV_EFI_ACTION by which the firmware ends (section 10.4.4).
const exitedBootServices = "Exit Boot Services Returned with Success"

// Facts reads the events of a bank for what their digests prove. An event whose data does not hash to its digest shows
// nothing, whatever it calls itself. Borders are known by their digests, never by their type: whoever can rewrite a type
// could move them. What stands before the separator of its register is the firmware's word; behind it, only what a sound
// boot loader writes is read.
//
// Facts are no list of all that was measured: a liar can hide one by calling its event something else. A caller who
// wants to know that nothing else ran must account for every digest of a register. Nor is the order of events of
// different registers covered by anything.
//
// The caller must know that the registers hold what the log replays to: see [Log.Replay].
func (l Log) Facts(a Algorithm) Reading {
	r := &reading{kind: l.Kind, bank: a}
	if a.Hash() == 0 {
		return r.Reading
	}
	r.border = [2][]byte{a.sum([]byte{0, 0, 0, 0}), a.sum([]byte{0xff, 0xff, 0xff, 0xff})}
	r.exited = a.sum([]byte(exitedBootServices))
	for _, e := range l.Events {
		if d := e.Digest(a); e.Type != NoAction && d != nil {
			r.read(e, d)
		}
	}
	r.settle()
	return r.Reading
}

func (r *reading) fault(e Event, format string, args ...any) {
	if len(r.Faults) < maxRemarks {
		r.Faults = append(r.Faults, fmt.Sprintf("event %d: ", e.Number)+fmt.Sprintf(format, args...))
	}
}

func (r *reading) note(e Event, format string, args ...any) {
	if len(r.Notes) < maxRemarks {
		r.Notes = append(r.Notes, fmt.Sprintf("event %d: ", e.Number)+fmt.Sprintf(format, args...))
	}
}

func (r *reading) fact(e Event, name, value, quirk string) {
	r.Facts = append(r.Facts, Fact{e.Register, e.Number, name, value, quirk})
}

// firmwareOnly reports whether only the firmware extends a register: PCRs 0 to 7 up to the hand-over.
func (r *reading) firmwareOnly(register int) bool { return r.kind == PCRs && register <= 7 }

// secureBootRegister is where the firmware measures boot policy: PCR 7, which a TDX guest folds into RTMR0.
func (r *reading) secureBootRegister() int {
	if r.kind == RTMRs {
		return 1
	}
	return 7
}

func (r *reading) read(e Event, digest []byte) {
	section := r.section
	r.section = ""
	bordered := r.kind == RTMRs || e.Register <= 7
	switch {
	case bordered && (bytes.Equal(digest, r.border[0]) || bytes.Equal(digest, r.border[1])):
		// Some firmware extends the same bytes as a version of its own, which moves no border that counts.
		if e.Register != r.secureBootRegister() && e.Type != Separator {
			return
		}
		if r.separated[e.Register] {
			r.fault(e, "duplicate separator")
		}
		r.separated[e.Register] = true
		return
	case bytes.Equal(digest, r.exited):
		r.left = true
		return
	case r.left && r.firmwareOnly(e.Register):
		r.fault(e, "PCR %d is extended after the firmware handed over", e.Register)
		return
	}
	switch e.Type {
	case Separator:
		if r.proves(e, e.Data) && bordered {
			r.fault(e, "the separator says that the firmware failed")
		} else if bordered {
			r.note(e, "its digest is not that of a separator")
		}
	case VariableConfig:
		r.config(e)
	case VariableAuthority:
		r.authority(e)
	case IPL:
		r.loader(e, section)
	}
}

func (r *reading) proves(e Event, data ...[]byte) bool {
	return bytes.Equal(r.bank.sum(data...), e.Digest(r.bank))
}

// variable is UEFI_VARIABLE_DATA (section 10.2.6).
type variable struct {
	name string
	data []byte
	more bool // bytes stand behind the data
}

func parseVariable(b []byte) (v variable, ok bool) {
	const head = 16 + 8 + 8
	if len(b) < head {
		return v, false
	}
	chars, size := le.Uint64(b[16:]), le.Uint64(b[24:])
	rest := uint64(len(b) - head)
	if chars > maxVariable || 2*chars > rest || size > rest-2*chars {
		return v, false
	}
	text := make([]uint16, chars)
	for i := range text {
		text[i] = le.Uint16(b[head+2*i:])
	}
	return variable{string(utf16.Decode(text)), b[head+2*chars:][:size], size < rest-2*chars}, true
}

// configNames are the variables of boot policy and what to call them.
var configNames = map[string]string{"SecureBoot": SecureBoot, "PK": PK, "KEK": KEK, "db": DB, "dbx": DBX}

func (r *reading) config(e Event) {
	if e.Register != r.secureBootRegister() || r.separated[e.Register] || !r.proves(e, e.Data) {
		return
	}
	v, ok := parseVariable(e.Data)
	if !ok || v.more {
		r.note(e, "the variable does not parse")
		return
	}
	name, ok := configNames[v.name]
	switch {
	case !ok:
	case name != SecureBoot:
		r.fact(e, name, hex.EncodeToString(SHA256.sum(v.data)), "")
	case len(v.data) == 0:
		r.fact(e, name, "unset", "")
	case len(v.data) == 1 && v.data[0] == 1:
		r.fact(e, name, "on", "")
	case len(v.data) == 1 && v.data[0] == 0:
		r.fact(e, name, "off", "")
	default:
		r.note(e, "SecureBoot is neither 0 nor 1")
	}
}

// unhashedByte is what old versions of shim append to an authority without measuring it. They also log the variable with
// a wrong size.
const unhashedByte = "the last byte of the data was not measured"

func (r *reading) authority(e Event) {
	if e.Register != r.secureBootRegister() {
		return
	}
	data, quirk := e.Data, ""
	if n := len(data); !r.proves(e, data) {
		if n == 0 || !r.proves(e, data[:n-1]) {
			return
		}
		data, quirk = data[:n-1], unhashedByte
	}
	v, ok := parseVariable(data)
	switch {
	case !ok || v.more && quirk == "":
		r.note(e, "the authority does not parse")
	case v.name == "SbatLevel":
		r.fact(e, SBAT, printable(string(bytes.TrimRight(v.data, "\x00\n"))), quirk)
	case strings.HasPrefix(v.name, "MokList"):
		r.note(e, "%s names no certificate", printable(v.name))
	default:
		r.fact(e, Authority, hex.EncodeToString(SHA256.sum(certificate(v.data))), quirk)
	}
}

// certificate returns the certificate of EFI_SIGNATURE_DATA, which an owner's GUID stands before; old versions of shim
// left it out. Data that is neither, such as a digest that db lists, is returned whole.
func certificate(data []byte) []byte {
	for _, at := range []int{0, 16} {
		if b := data[min(at, len(data)):]; len(b) > 4 && b[0] == 0x30 && b[1] == 0x82 && len(b) == 4+int(b[2])<<8+int(b[3]) {
			return b
		}
	}
	return data
}

// kernelCommandLine begins what GRUB logs of a command line. It is not measured with it.
const kernelCommandLine = "kernel_cmdline: "

// loader reads what boot loaders write: GRUB its command lines (PCR 8), systemd-stub the sections of a unified kernel
// image, each by its name and then its content (PCR 11), and the command line it was given (PCR 12).
func (r *reading) loader(e Event, section string) {
	pcr := e.Register
	if r.kind == RTMRs {
		if pcr != 3 {
			return
		}
	} else if pcr != 8 && pcr != 11 && pcr != 12 {
		return
	}
	if section != "" {
		r.fact(e, UKISection, section+" "+hex.EncodeToString(e.Digest(r.bank)), "")
		return
	}
	if text, ok := bytes.CutPrefix(e.Data, []byte(kernelCommandLine)); ok && (r.kind == RTMRs || pcr == 8) {
		for _, t := range [][]byte{text, bytes.TrimRight(text, "\x00"), append(bytes.TrimRight(text, "\x00"), 0)} {
			if r.proves(e, t) {
				r.fact(e, CommandLine, printable(string(bytes.TrimRight(t, "\x00"))), "")
				return
			}
		}
		return
	}
	if name, ok := ucs2(e.Data); ok && (r.kind == RTMRs || pcr != 8) {
		switch {
		case strings.HasPrefix(name, ".") && len(name) <= 8 && r.proves(e, []byte(name), []byte{0}):
			r.section = printable(name)
		case (r.kind == RTMRs || pcr == 12) && r.proves(e, e.Data):
			r.fact(e, CommandLine, printable(name), "")
		}
	}
}

// ucs2 reads NUL-terminated UTF-16, as systemd-stub logs names.
func ucs2(b []byte) (string, bool) {
	if len(b) < 4 || len(b)%2 != 0 || len(b) > maxVariable || b[len(b)-1] != 0 || b[len(b)-2] != 0 {
		return "", false
	}
	text := make([]uint16, len(b)/2-1)
	for i := range text {
		if text[i] = le.Uint16(b[2*i:]); text[i] == 0 {
			return "", false
		}
	}
	return string(utf16.Decode(text)), true
}

// printable makes text from a log fit for a claim: one line of printable ASCII.
func printable(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	quoted := fmt.Sprintf("%+q", s)
	return quoted[1 : len(quoted)-1]
}

// settle drops what a register without its separator would show of the firmware: whatever was started may have written
// it. Two different words on secure boot show neither.
func (r *reading) settle() {
	reg := r.secureBootRegister()
	values := map[string]bool{}
	for _, f := range r.Facts {
		if f.Name == SecureBoot {
			values[f.Value] = true
		}
	}
	config := []string{SecureBoot, PK, KEK, DB, DBX}
	if r.separated[reg] && len(values) <= 1 {
		return
	}
	if len(values) > 1 {
		r.Faults = append(r.Faults, "SecureBoot is measured with two values")
	}
	r.Facts = slices.DeleteFunc(r.Facts, func(f Fact) bool { return f.Register == reg && slices.Contains(config, f.Name) })
}
