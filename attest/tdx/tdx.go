// Package tdx reads and judges Intel TDX quotes.
//
// A quote is a TD report that the platform's quoting enclave signed with a key of its own (the attestation key). The
// enclave's report binds that key; the platform's provisioning certification key (PCK) signs the enclave's report; Intel
// certifies the PCK under a Platform or Processor CA and the Intel SGX Root CA, which this package pins together with the
// signer of Intel's quoting enclaves. Formats: Intel TDX DCAP Quoting Library API (quote versions 4 and 5), TDX module
// 1.5 ABI specification (TD report), Intel SGX PCK Certificate and CRL Profile, Intel PCS API version 4 (TCB info version
// 3, QE identity version 2).
//
//	header (48) | v5: body type, size (6) | TD report body 1.0 (584) or 1.5 (648) | size | signature | attestation key |
//	certification data 6 { QE report | PCK signature | QE authentication data | certification data 5 { PCK chain, PEM } }
//
// [Parse] decodes, [Appraise] makes claims. Appraise checks the chain, the dates, revocation, the three signatures over
// received bytes, who made the quoting enclave, and every field that a policy may ask about. With Intel's collateral it
// says the TCB status as Intel converges it: platform, TDX module and quoting enclave. It does not check who asked for the
// quote beyond comparing REPORTDATA with what the caller expects, nor what MRTD and the RTMRs stand for: reference values
// are compared by the verifier. A status says what Intel published, not whether that suffices: a policy does. No quote can
// show that memory was not probed physically, or where the machine stands.
//
// Bytes behind the signature data are no part of a quote: nothing covers them, and the appraisal is that of the quote
// without them. SGX quotes are refused by name.
package tdx

// Rules is the revision of this room's judgement. A change that alters any result must raise it.
const Rules = 2

// Names of the format: of its components and their one part.
const (
	Format    = "tdx"
	MediaType = "application/vnd.assay.tdx-quote"
	PartQuote = "quote" // as the platform gave it, with whatever stands behind it
)

// Root files of this format.
const (
	RootFile     = "intel-sgx-root.pem"
	QESignerFile = "intel-qe-signer.txt" // see [ParseQESigners]
)
