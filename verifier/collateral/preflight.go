package collateral

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
)

// Preflight answers, before firmware is changed, whether its vendor publishes what the machine will then be judged with.
// A machine that runs firmware of which nothing is published is not refused as tampered with, but nobody can accept it.

// Answer is what is known of one item that a machine would need.
type Answer struct {
	What      string     `json:"what"`
	Kind      string     `json:"kind"`
	Source    string     `json:"source"`
	Published string     `json:"published"` // yes, no, unknown
	Why       string     `json:"why,omitzero"`
	Until     canon.Time `json:"until,omitzero"` // of what is published
}

// Values of Published.
const (
	PublishedYes     = "yes"
	PublishedNo      = "no"
	PublishedUnknown = "unknown" // the vendor could not be asked, or gave an answer that is not used
)

// Preflight asks for each need, whose Why says what it stands for.
func (f *Fetcher) Preflight(ctx context.Context, subject string, needs []attest.Need) []Answer {
	answers := []Answer{}
	for _, n := range needs {
		a := Answer{What: n.Why, Kind: n.Kind, Source: n.Source, Published: PublishedYes}
		item, failure := f.Get(ctx, subject, n)
		switch {
		case failure == nil:
			a.Until = item.Facts.Window.Until
		case failure.Code == NotPublished:
			a.Published, a.Why = PublishedNo, failure.Why
		default:
			a.Published, a.Why = PublishedUnknown, failure.Why
		}
		answers = append(answers, a)
	}
	return answers
}

// NeedVCEK names the certificate of a chip at a TCB, with the TCB as claims spell it: on Turin, fmc= comes first. chip is
// CHIP_ID, on Turin its first 8 bytes or all 64.
func NeedVCEK(line sevsnp.Line, chip []byte, tcb string) (attest.Need, error) {
	size := 64
	if line == sevsnp.Turin {
		size = 8
		if len(chip) == 64 && strings.Trim(string(chip[8:]), "\x00") == "" {
			chip = chip[:8]
		}
	}
	if len(chip) != size {
		return attest.Need{}, fmt.Errorf("chip id of %d bytes, want %d on %s", len(chip), size, line)
	}
	t, err := parseTCB(line, tcb)
	if err != nil {
		return attest.Need{}, err
	}
	return attest.Need{Kind: attest.KindAMDCertificate, Source: sevsnp.VCEKSource(line, chip, t), Why: fmt.Sprintf("the VCEK of the chip at %s", t.Text(line))}, nil
}

func parseTCB(line sevsnp.Line, text string) (t sevsnp.TCB, err error) {
	format := "bl=%d tee=%d snp=%d ucode=%d"
	parts := []any{&t.Bootloader, &t.TEE, &t.SNP, &t.Microcode}
	if line == sevsnp.Turin {
		format, parts = "fmc=%d "+format, append([]any{&t.FMC}, parts...)
	}
	if _, err := fmt.Sscanf(text, format, parts...); err != nil || t.Text(line) != text {
		return t, fmt.Errorf("TCB %q: want %q on %s", text, strings.ReplaceAll(format, "%d", "N"), line)
	}
	return t, nil
}

// NeedTCBInfo names the TCB info of a platform family.
func NeedTCBInfo(fmspc []byte) (attest.Need, error) {
	if len(fmspc) != 6 {
		return attest.Need{}, fmt.Errorf("FMSPC of %d bytes, want 6", len(fmspc))
	}
	return attest.Need{Kind: attest.KindIntelTCBInfo, Source: fmt.Sprintf("%s%x", tdx.SourceTCBInfo, fmspc), Why: fmt.Sprintf("the TCB levels of the platform family %x", fmspc)}, nil
}

var rimID = regexp.MustCompile(`^NV_[0-9A-Z_.]{1,125}$`)

// NeedRIM names a manifest by the id that NVIDIA's service has for it.
func NeedRIM(id, why string) (attest.Need, error) {
	if !rimID.MatchString(id) {
		return attest.Need{}, fmt.Errorf("RIM id %.150q: want NV_ and then capitals, digits, _ and .", id)
	}
	return attest.Need{Kind: attest.KindNVIDIARIM, Source: NVIDIARIM.origin() + "/v1/rim/" + id, Why: why}, nil
}

// NeedDriverRIM names the manifest of a driver for the GPUs of an architecture, hopper or blackwell.
func NeedDriverRIM(architecture, version string) (attest.Need, error) {
	prefix := map[string]string{"hopper": "NV_GPU_DRIVER_GH100_", "blackwell": "NV_GPU_CC_DRIVER_GB100_"}[architecture]
	if prefix == "" {
		return attest.Need{}, fmt.Errorf("architecture %q: want hopper or blackwell", architecture)
	}
	return NeedRIM(prefix+version, fmt.Sprintf("the reference manifest of driver %s for %s", version, architecture))
}

// NeedVBIOSRIM names the manifest of a VBIOS. board is project, project SKU and chip SKU, joined by _.
func NeedVBIOSRIM(board, version string) (attest.Need, error) {
	if strings.Count(board, "_") != 2 || version == "" {
		return attest.Need{}, fmt.Errorf("VBIOS %q of board %q: want a version, and PROJECT_SKU_CHIPSKU", version, board)
	}
	return NeedRIM(strings.ToUpper("NV_GPU_VBIOS_"+board+"_"+strings.ReplaceAll(version, ".", "")), fmt.Sprintf("the reference manifest of VBIOS %s of board %s", version, board))
}

// NeedSwitchRIM names the manifest of the BIOS of Hopper machines' switches.
func NeedSwitchRIM(version string) (attest.Need, error) {
	return NeedRIM(strings.ToUpper("NV_SWITCH_BIOS_5612_0002_890_"+strings.ReplaceAll(version, ".", "")), "the reference manifest of switch BIOS "+version)
}
