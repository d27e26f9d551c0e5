package audit

import (
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/verifier"
)

// standing says where what a claim speaks of stands: fields of the component, by the names that its format gives them, a
// trailing * for all that begin so; whole parts of it; kinds of inputs beside the evidence.
type standing struct {
	fields []string
	parts  []string
	inputs []string
}

func fields(names ...string) standing { return standing{fields: names} }
func (p standing) and(kinds ...string) standing {
	p.inputs = kinds
	return p
}
func (p standing) in(parts ...string) standing {
	p.parts = parts
	return p
}

// standings has every claim of a component's room. Claims of the whole bundle are explained by what they rest on.
var standings = map[string]standing{
	"azure.report-fresh":  fields("variable_data").and(verifier.InputExpect),
	"azure.runtime-data":  fields("variable_data", "REPORT_DATA", "TDREPORT"),
	"azure.structure":     fields("signature", "version", "report_type"),
	"nvidia.cc-mode":      fields("MEASUREMENT_*").and(verifier.InputReferences),
	"nvidia.chain":        standing{}.in(nvidia.PartChain).and(verifier.InputRoots),
	"nvidia.devtools-off": fields("MEASUREMENT_*").and(verifier.InputReferences),

	"nvidia.driver-rim":   fields("DRIVER_VERSION").and(attest.KindNVIDIARIM),
	"nvidia.firmware":     fields("DRIVER_VERSION", "VBIOS_VERSION", "PROJECT", "PROJECT_SKU", "CHIP_SKU"),
	"nvidia.freshness":    fields("REQUESTER_NONCE").and(verifier.InputExpect),
	"nvidia.fwid":         fields("FWID").in(nvidia.PartChain),
	"nvidia.identity":     standing{}.in(nvidia.PartChain),
	"nvidia.measurements": fields("MEASUREMENT_*").and(attest.KindNVIDIARIM),
	"nvidia.mode":         fields("FEATURE_FLAG", "PROTECTED_PCIE_STATUS", "SWITCH_LOCK_STATUS"),
	"nvidia.revocation":   standing{}.in(nvidia.PartChain).and(attest.KindNVIDIAOCSP, attest.KindNVIDIACRL, attest.KindDenyList),
	"nvidia.signature":    fields("SIGNATURE").in(nvidia.PartChain),
	"nvidia.structure":    fields("REQUEST", "RESPONSE"),
	"nvidia.vbios-rim":    fields("VBIOS_VERSION").and(attest.KindNVIDIARIM),

	"sevsnp.cert-chip-id":  fields("CHIP_ID").in(sevsnp.PartCertificates, azure.PartVCEK).and(attest.KindAMDCertificate),
	"sevsnp.cert-tcb":      fields("REPORTED_TCB").in(sevsnp.PartCertificates, azure.PartVCEK).and(attest.KindAMDCertificate),
	"sevsnp.chain":         standing{}.in(sevsnp.PartCertificates, azure.PartVCEK).and(attest.KindAMDCertificate, verifier.InputRoots),
	"sevsnp.committed-tcb": fields("COMMITTED_TCB", "CURRENT_TCB"),
	"sevsnp.debug-off":     fields("POLICY"),
	"sevsnp.freshness":     fields("REPORT_DATA").and(verifier.InputExpect),
	"sevsnp.host-data":     fields("HOST_DATA"),
	"sevsnp.id-block":      fields("ID_KEY_DIGEST", "AUTHOR_KEY_DIGEST"),
	"sevsnp.launch-tcb":    fields("LAUNCH_TCB"),
	"sevsnp.measurement":   fields("MEASUREMENT"),
	"sevsnp.migration-off": fields("POLICY"),
	"sevsnp.mitigations":   fields("LAUNCH_MIT_VECTOR", "CURRENT_MIT_VECTOR"),
	"sevsnp.platform-info": fields("PLATFORM_INFO", "POLICY"),
	"sevsnp.product":       fields("CPUID_FAM_ID", "CPUID_MOD_ID").in(sevsnp.PartCertificates, azure.PartVCEK).and(attest.KindAMDCertificate),
	"sevsnp.reserved-bits": fields("reserved", "POLICY", "PLATFORM_INFO"),
	"sevsnp.revocation":    standing{}.and(attest.KindAMDCRL, attest.KindDenyList),
	"sevsnp.signature":     fields("SIGNATURE.R", "SIGNATURE.S").in(sevsnp.PartCertificates, azure.PartVCEK).and(attest.KindAMDCertificate),
	"sevsnp.signing-key":   fields("SIGNING_KEY|MASK_CHIP_KEY|AUTHOR_KEY_EN"),
	"sevsnp.structure":     fields("VERSION", "SIGNATURE_ALGO"),
	"sevsnp.tcb":           fields("REPORTED_TCB"),
	"sevsnp.vmpl":          fields("VMPL"),

	"statement.structure": standing{}.in(attest.PartStatement),

	"tdx.advisories":      fields("TEE_TCB_SVN").and(attest.KindIntelTCBInfo),
	"tdx.attributes":      fields("TDATTRIBUTES"),
	"tdx.chain":           fields("PCK_CHAIN").and(verifier.InputRoots),
	"tdx.collateral":      standing{}.and(attest.KindIntelTCBInfo, attest.KindIntelQEIdentity, attest.KindIntelRootCRL, attest.KindIntelCertificate),
	"tdx.debug-off":       fields("TDATTRIBUTES"),
	"tdx.freshness":       fields("REPORTDATA").and(verifier.InputExpect),
	"tdx.measurement":     fields("MRTD", "RTMR0", "RTMR1", "RTMR2", "RTMR3"),
	"tdx.module-identity": fields("TEE_TCB_SVN", "MRSIGNERSEAM", "SEAMATTRIBUTES").and(attest.KindIntelTCBInfo),
	"tdx.mr-config":       fields("MRCONFIGID", "MROWNER", "MROWNERCONFIG"),
	"tdx.qe-identity":     fields("QE_REPORT").and(attest.KindIntelQEIdentity),
	"tdx.qe-report":       fields("QE_REPORT", "QE_REPORT_SIGNATURE", "QE_AUTH", "ATTESTATION_KEY"),
	"tdx.qe-signer":       fields("QE_REPORT").and(verifier.InputRoots),
	"tdx.revocation":      standing{}.and(attest.KindIntelPCKCRL, attest.KindIntelRootCRL, attest.KindDenyList),
	"tdx.seam":            fields("MRSEAM", "MRSIGNERSEAM", "SEAMATTRIBUTES"),
	"tdx.servicetd":       fields("MRSERVICETD"),
	"tdx.signature":       fields("SIGNATURE", "ATTESTATION_KEY"),
	"tdx.structure":       fields("VERSION", "TEE_TYPE"),
	"tdx.tcb-date":        fields("TEE_TCB_SVN").and(attest.KindIntelTCBInfo),
	"tdx.tcb-status":      fields("TEE_TCB_SVN").and(attest.KindIntelTCBInfo, attest.KindIntelQEIdentity),
	"tdx.xfam":            fields("XFAM"),

	"tpm.ak-attributes": fields("TPMT_PUBLIC.objectAttributes", "SubjectPublicKeyInfo"),
	"tpm.ak-bound":      standing{}.in(tpm.PartAK, tpm.PartAKCertificate).and(verifier.InputExpect),
	"tpm.clock":         fields("TPMS_ATTEST.clockInfo.*").and(verifier.InputExpect),
	"tpm.ek-chain":      standing{}.in(tpm.PartEKCertificate).and(attest.KindTPMCertificate, verifier.InputRoots),
	"tpm.ek-encoding":   standing{}.in(tpm.PartEKCertificate),
	"tpm.event-log":     fields("PCR.*").in(tpm.PartEventLog),
	"tpm.firmware":      fields("TPMS_ATTEST.firmwareVersion"),
	"tpm.freshness":     fields("TPMS_ATTEST.extraData").and(verifier.InputExpect),
	"tpm.ima":           fields("PCR.*").in(tpm.PartIMA, tpm.PartIMADigest).and(attest.KindIMAList),
	"tpm.pcr-digest":    fields("TPMS_ATTEST.attested.quote.pcrDigest", "PCR.*"),
	"tpm.quote":         fields("TPMS_ATTEST.magic", "TPMS_ATTEST.type"),
	"tpm.selection":     fields("TPMS_ATTEST.attested.quote.pcrSelect*"),
	"tpm.signature":     fields("TPMT_SIGNATURE.*"),
	"tpm.structure":     fields("TPMS_ATTEST.magic", "TPMT_PUBLIC.type", "SubjectPublicKeyInfo"),
}

// Place is where a value stands: bytes of a part of the evidence.
type Place struct {
	Part   string       `json:"part"`           // of the component
	Digest canon.Digest `json:"sha256"`         // of the part
	Field  string       `json:"field,omitzero"` // as the specification spells it; absent: the whole part
	Offset int          `json:"offset"`         // bytes into the part
	Size   int          `json:"size"`           // bytes
	Hex    string       `json:"hex,omitzero"`   // the beginning of the bytes, MaxShown at most
}

// MaxShown is how many bytes of a value an explanation shows.
const MaxShown = 64

// listed fields of a component, with the part that each stands in.
type partField struct {
	part string
	attest.Field
}

// fieldsOf lists the fields of a component. One that does not parse has none.
func fieldsOf(c attest.Component) (out []partField) {
	of := func(part string, read func([]byte) ([]attest.Field, error)) {
		data, _ := c.Part(part)
		list, err := read(data)
		if err != nil {
			return
		}
		for _, f := range list {
			out = append(out, partField{part, f})
		}
	}
	switch c.MediaType {
	case sevsnp.MediaType:
		of(sevsnp.PartReport, sevsnp.Fields)
	case azure.MediaType:
		of(azure.PartReport, azure.Fields)
		of(azure.PartQuote, tdx.Fields)
	case tdx.MediaType:
		of(tdx.PartQuote, tdx.Fields)
	case nvidia.MediaTypeGPU, nvidia.MediaTypeSwitch:
		of(nvidia.PartReport, nvidia.Fields)
	case tpm.MediaType:
		list, err := tpm.Fields(c)
		if err != nil {
			return nil
		}
		for _, f := range list {
			structure, _, _ := strings.Cut(f.Name, ".")
			part := map[string]string{"TPMS_ATTEST": tpm.PartQuote, "TPMT_SIGNATURE": tpm.PartSignature, "PCR": tpm.PartPCRs}[structure]
			if part == "" {
				part = tpm.PartAK
			}
			out = append(out, partField{part, f})
		}
	}
	return out
}

// places returns where what a claim of a component speaks of stands.
func (p standing) places(c attest.Component) (out []Place) {
	for _, f := range fieldsOf(c) {
		if slices.ContainsFunc(p.fields, func(name string) bool { return fits(name, f.Name) }) {
			data, _ := c.Part(f.part)
			out = append(out, Place{f.part, canon.Sum(data), f.Name, f.Offset, f.Size, f.Hex[:min(len(f.Hex), 2*MaxShown)]})
		}
	}
	for _, part := range p.parts {
		if data, ok := c.Part(part); ok {
			out = append(out, Place{Part: part, Digest: canon.Sum(data), Size: len(data)})
		}
	}
	return out
}

// fits reports whether a name is the pattern, or begins with it where that ends in *.
func fits(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}
