package eventlog

import (
	"bytes"
	"fmt"
)

// Register is what a log says of one register.
type Register struct {
	Value  []byte // that it must hold
	Events int    // that were extended
}

// Replayed holds what a log says of the registers of one bank, those that it never extends included.
type Replayed struct {
	Algorithm Algorithm
	Locality  int // of TPM2_Startup, from the log: PCR 0 starts from it
	registers []Register
}

// Register returns what the log says of a register. One that the log knows nothing of has its value at start.
func (r Replayed) Register(index int) Register {
	if index < 0 || index >= len(r.registers) {
		return Register{Value: make([]byte, r.Algorithm.Size())}
	}
	return r.registers[index]
}

// localitySignature begins the data of the EV_NO_ACTION that names the locality of TPM2_Startup (section 10.4.5.3).
const localitySignature = "StartupLocality\x00"

// hcrtmLocality is where PCR 0 starts when an H-CRTM measured before TPM2_Startup (TPM 2.0 part 1, H-CRTM sequences).
const hcrtmLocality = 4

// Replay computes what each register of a bank must hold: EV_NO_ACTION is never extended, PCR 0 starts from the locality
// of TPM2_Startup, PCRs 17 to 22 from FF..FF, all others from zero. The order is the log's own; nothing is tried. The
// error says why the log has nothing to say of the bank.
func (l Log) Replay(a Algorithm) (Replayed, error) {
	r := Replayed{Algorithm: a}
	switch {
	case a.Hash() == 0:
		return r, fmt.Errorf("%s digests are not computed by this build", a)
	case l.Legacy && a != SHA1:
		return r, fmt.Errorf("the log is of the legacy format, which has SHA-1 digests alone")
	}
	count := lastPCR + 1
	if l.Kind == RTMRs {
		count = lastMR + 1
	}
	size := a.Size()
	flat := make([]byte, count*size)
	r.registers = make([]Register, count)
	for i := range r.registers {
		r.registers[i].Value = flat[i*size : (i+1)*size : (i+1)*size]
		if l.Kind == PCRs && i >= 17 && i <= 22 {
			copy(r.registers[i].Value, bytes.Repeat([]byte{0xff}, size))
		}
	}
	h := a.Hash().New()
	for _, e := range l.Events {
		if e.Type == NoAction {
			if err := r.startup(l.Kind, e); err != nil {
				return r, err
			}
			continue
		}
		reg := &r.registers[e.Register]
		if e.Type == HCRTM && l.Kind == PCRs && e.Register == 0 && reg.Events == 0 {
			r.Locality, reg.Value[size-1] = hcrtmLocality, hcrtmLocality
		}
		d := e.Digest(a)
		if d == nil {
			return r, fmt.Errorf("event %d has no %s digest", e.Number, a)
		}
		h.Reset()
		h.Write(reg.Value)
		h.Write(d)
		h.Sum(reg.Value[:0])
		reg.Events++
	}
	return r, nil
}

// startup takes the locality from an EV_NO_ACTION. That event is covered by nothing: a wrong one makes PCR 0 differ.
func (r *Replayed) startup(kind Kind, e Event) error {
	if kind != PCRs || !bytes.HasPrefix(e.Data, []byte(localitySignature)) {
		return nil
	}
	pcr0 := &r.registers[0]
	switch locality := e.Data[len(localitySignature):]; {
	case len(locality) != 1 || locality[0] > 4:
		return fmt.Errorf("event %d: StartupLocality is not of one byte from 0 to 4", e.Number)
	case pcr0.Events > 0:
		return fmt.Errorf("event %d: StartupLocality after PCR 0 was extended", e.Number)
	default:
		r.Locality = int(locality[0])
		pcr0.Value[len(pcr0.Value)-1] = locality[0]
	}
	return nil
}
