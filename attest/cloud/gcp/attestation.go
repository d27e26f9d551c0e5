package gcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
)

// attestation is the message attest.Attestation (go-tpm-tools v0.4.10, proto/attest.proto).
type attestation struct {
	ak      []byte // TPMT_PUBLIC
	quotes  []quote
	log     []byte
	akCert  []byte   // DER
	issuers [][]byte // DER
	report  *sevsnp.Report
	certs   [][]byte // DER, of the report
	td      *tdx.Quote
}

// quote is the message tpm.Quote (proto/tpm.proto).
type quote struct {
	message, signature []byte
	bank               eventlog.Algorithm
	pcrs               []tpm.PCR
}

var errTwoCPUs = errors.New("both sev_snp_attestation and tdx_attestation, want at most one")

func parse(data []byte) (*attestation, error) {
	if len(data) > attest.MaxBundle {
		return nil, fmt.Errorf("%d bytes, at most %d", len(data), attest.MaxBundle)
	}
	a := &attestation{}
	err := decode(data, "Attestation", []field{
		{1, "ak_pub", &a.ak}, {2, "quotes", repeated(a.addQuote)}, {3, "event_log", &a.log}, {6, "ak_cert", &a.akCert},
		{7, "intermediate_certs", repeated(a.addIssuer)},
		{8, "sev_snp_attestation", a.readSNP}, {9, "tdx_attestation", a.readTDX},
	})
	switch {
	case err != nil:
		return nil, err
	case len(a.ak) == 0:
		return nil, fmt.Errorf("Attestation: no ak_pub")
	}
	return a, nil
}

func (a *attestation) addIssuer(der []byte) error {
	if len(a.issuers) == maxIssuers {
		return fmt.Errorf("more than %d intermediate_certs", maxIssuers)
	}
	a.issuers = append(a.issuers, der)
	return nil
}

func (a *attestation) addQuote(data []byte) error {
	if len(a.quotes) == maxQuotes {
		return fmt.Errorf("more than %d quotes", maxQuotes)
	}
	var q quote
	var bank uint16
	err := decode(data, "Quote", []field{
		{1, "quote", &q.message}, {2, "raw_sig", &q.signature},
		message(3, "pcrs", field{1, "hash", &bank}, field{2, "pcrs", repeated(q.addRegister)}),
	})
	if err != nil {
		return err
	}
	q.bank = eventlog.Algorithm(bank)
	if q.bank.Size() == 0 {
		return fmt.Errorf("bank 0x%04x is not known to this build", bank)
	}
	if slices.ContainsFunc(a.quotes, func(o quote) bool { return o.bank == q.bank }) {
		return fmt.Errorf("a second quote of bank %s", q.bank)
	}
	for i := range q.pcrs {
		p := &q.pcrs[i]
		if p.Bank = q.bank; len(p.Value) != p.Bank.Size() {
			return fmt.Errorf("register %d of bank %s is of %d bytes, want %d", p.Index, p.Bank, len(p.Value), p.Bank.Size())
		}
	}
	a.quotes = append(a.quotes, q)
	return nil
}

// addRegister reads one entry of the map of registers. A key or value that is left out is zero or empty.
func (q *quote) addRegister(data []byte) error {
	var index uint8
	var value []byte
	if err := decode(data, "PcrsEntry", []field{{1, "key", &index}, {2, "value", &value}}); err != nil {
		return err
	}
	switch {
	case index >= maxRegisters:
		return fmt.Errorf("register %d, at most %d", index, maxRegisters-1)
	case slices.ContainsFunc(q.pcrs, func(p tpm.PCR) bool { return p.Index == int(index) }):
		return fmt.Errorf("a second register %d", index)
	}
	q.pcrs = append(q.pcrs, tpm.PCR{Index: int(index), Value: value})
	return nil
}

// readSNP reads sevsnp.Attestation (go-sev-guest v0.15.0, proto/sevsnp.proto).
func (a *attestation) readSNP(data []byte) error {
	if a.td != nil {
		return errTwoCPUs
	}
	a.report = &sevsnp.Report{}
	return decode(data, "sevsnp.Attestation", []field{
		{1, "report", a.readReport},
		message(2, "certificate_chain", field{1, "vcek_cert", a.addCertificate}, field{6, "vlek_cert", a.addCertificate},
			field{2, "ask_cert", a.addCertificate}, field{3, "ark_cert", a.addCertificate}),
	})
}

func (a *attestation) addCertificate(der []byte) error {
	if len(der) == 0 {
		return nil
	}
	if len(der) > attest.MaxCertificate {
		return fmt.Errorf("a certificate of %d bytes, at most %d", len(der), attest.MaxCertificate)
	}
	a.certs = append(a.certs, der)
	return nil
}

// readReport puts a report together from its fields. What the recorder left out was zero, or the signature fails.
func (a *attestation) readReport(data []byte) error {
	r := a.report
	var fms uint32
	signature := make([]byte, 512)
	err := decode(data, "Report", []field{
		{1, "version", &r.Version}, {2, "guest_svn", &r.GuestSVN}, {3, "policy", (*uint64)(&r.Policy)},
		{4, "family_id", r.FamilyID[:]}, {5, "image_id", r.ImageID[:]}, {6, "vmpl", &r.VMPL}, {7, "signature_algo", &r.SignatureAlgo},
		{8, "current_tcb", (*uint64)(&r.CurrentTCB)}, {9, "platform_info", (*uint64)(&r.PlatformInfo)}, {10, "signer_info", (*uint32)(&r.KeyInfo)},
		{11, "report_data", r.ReportData[:]}, {12, "measurement", r.Measurement[:]}, {13, "host_data", r.HostData[:]},
		{14, "id_key_digest", r.IDKeyDigest[:]}, {15, "author_key_digest", r.AuthorKeyDigest[:]}, {16, "report_id", r.ReportID[:]},
		{17, "report_id_ma", r.ReportIDMA[:]}, {18, "reported_tcb", (*uint64)(&r.ReportedTCB)}, {19, "chip_id", r.ChipID[:]},
		{20, "committed_tcb", (*uint64)(&r.CommittedTCB)},
		{21, "current_build", &r.Current.Build}, {22, "current_minor", &r.Current.Minor}, {23, "current_major", &r.Current.Major},
		{24, "committed_build", &r.Committed.Build}, {25, "committed_minor", &r.Committed.Minor}, {26, "committed_major", &r.Committed.Major},
		{27, "launch_tcb", (*uint64)(&r.LaunchTCB)}, {28, "signature", signature}, {29, "cpuid1eax_fms", &fms},
		{30, "launch_mit_vector", &r.LaunchMit}, {31, "current_mit_vector", &r.CurrentMit},
	})
	if err != nil {
		return err
	}
	// CPUID 1 EAX: the family is the sum of two fields, the model is in two halves.
	r.Family, r.Model, r.Stepping = uint8(fms>>20)+uint8(fms>>8&0xf), uint8(fms>>12&0xf0)|uint8(fms>>4&0xf), uint8(fms&0xf)
	if copy(r.S[:], signature[copy(r.R[:], signature):]); len(bytes.Trim(signature[len(r.R)+len(r.S):], "\x00")) > 0 {
		return fmt.Errorf("Report: signature has bytes behind R and S")
	}
	return nil
}

// Kinds of certification data (Intel TDX DCAP Quoting Library API, appendix A.3.9): a PCK chain, and a QE report around one.
const (
	certPEM      = 5
	certQEReport = 6
)

// readTDX reads tdx.QuoteV4 (go-tdx-guest, proto/tdx.proto). Sizes are computed anew, and what stood behind the quote is no
// part of it. The recorder calls bytes 8 and 9 of the header pce_svn and the next two qe_svn; Intel has them the other way
// round.
func (a *attestation) readTDX(data []byte) error {
	if a.report != nil {
		return errTwoCPUs
	}
	q := &tdx.Quote{BodyType: tdx.BodyTD10}
	a.td = q
	var seam, attributes, xfam [8]byte
	var qe, pce [2]byte
	var kind, chainKind, misc uint32
	var product, security uint16
	rtmrs := 0
	addRTMR := func(b []byte) error {
		if rtmrs == len(q.RTMR) || len(b) != len(q.RTMR[0]) {
			return fmt.Errorf("rtmrs: want %d of %d bytes", len(q.RTMR), len(q.RTMR[0]))
		}
		rtmrs += copy(q.RTMR[rtmrs][:], b) / len(b)
		return nil
	}
	e := &q.QEReport
	err := decode(data, "QuoteV4", []field{
		message(1, "header", field{1, "version", &q.Version}, field{2, "attestation_key_type", &q.KeyType}, field{3, "tee_type", &q.TEEType},
			field{4, "qe_svn", qe[:]}, field{5, "pce_svn", pce[:]}, field{6, "qe_vendor_id", q.QEVendor[:]}, field{7, "user_data", q.UserData[:]}),
		message(2, "td_quote_body", field{1, "tee_tcb_svn", q.TEETCBSVN[:]}, field{2, "mr_seam", q.MRSEAM[:]}, field{3, "mr_signer_seam", q.MRSIGNERSEAM[:]},
			field{4, "seam_attributes", seam[:]}, field{5, "td_attributes", attributes[:]}, field{6, "xfam", xfam[:]}, field{7, "mr_td", q.MRTD[:]},
			field{8, "mr_config_id", q.MRCONFIGID[:]}, field{9, "mr_owner", q.MROWNER[:]}, field{10, "mr_owner_config", q.MROWNERCONFIG[:]},
			field{11, "rtmrs", repeated(addRTMR)}, field{12, "report_data", q.ReportData[:]}),
		message(4, "signed_data", field{1, "signature", q.Signature[:]}, field{2, "ecdsa_attestation_key", q.AttestationKey[:]},
			message(3, "certification_data", field{1, "certificate_data_type", &kind},
				message(3, "qe_report_certification_data",
					message(1, "qe_report", field{1, "cpu_svn", e[:16]}, field{2, "misc_select", &misc}, field{3, "reserved1", e[20:48]},
						field{4, "attributes", e[48:64]}, field{5, "mr_enclave", e[64:96]}, field{6, "reserved2", e[96:128]}, field{7, "mr_signer", e[128:160]},
						field{8, "reserved3", e[160:256]}, field{9, "isv_prod_id", &product}, field{10, "isv_svn", &security},
						field{11, "reserved4", e[260:320]}, field{12, "report_data", e[320:384]}),
					field{2, "qe_report_signature", q.QESignature[:]},
					message(3, "qe_auth_data", field{2, "data", &q.QEAuth}),
					message(4, "pck_certificate_chain_data", field{1, "certificate_data_type", &chainKind}, field{3, "pck_cert_chain", &q.Chain})))),
	})
	switch {
	case err != nil:
		return err
	case q.Version != 4:
		return fmt.Errorf("QuoteV4: version %d, want 4", q.Version)
	case kind != certQEReport || chainKind != certPEM:
		return fmt.Errorf("QuoteV4: certification data of types %d and %d, want %d and %d", kind, chainKind, certQEReport, certPEM)
	case rtmrs != len(q.RTMR):
		return fmt.Errorf("QuoteV4: %d rtmrs, want %d", rtmrs, len(q.RTMR))
	}
	le := binary.LittleEndian
	q.QESVN, q.PCESVN = le.Uint16(pce[:]), le.Uint16(qe[:])
	q.SEAMAttributes, q.TDAttributes, q.XFAM = le.Uint64(seam[:]), tdx.TDAttributes(le.Uint64(attributes[:])), tdx.XFAM(le.Uint64(xfam[:]))
	le.PutUint32(e[16:], misc)
	le.PutUint16(e[256:], product)
	le.PutUint16(e[258:], security)
	return nil
}
