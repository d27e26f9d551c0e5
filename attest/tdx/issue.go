package tdx

import (
	"errors"
	"fmt"

	"github.com/assay-network/assay/attest"
)

// IssueOf reads which issue TCB info or a QE identity is. Subjects are platform families (FMSPC) and the quoting enclave;
// tcbEvaluationDataNumber counts, and issueDate tells two issues of one evaluation apart. It verifies nothing.
func IssueOf(item attest.Collateral) (attest.Issue, bool) {
	s, err := openSigned(item.Data)
	if err != nil {
		return attest.Issue{}, false
	}
	switch item.Kind {
	case attest.KindIntelTCBInfo:
		info, err := verifyTCBInfo(s.Body, nil)
		return attest.Issue{Subject: fmt.Sprintf("TCB info of FMSPC %x", info.fmspc), Number: int64(info.evaluation), At: info.issued}, errors.Is(err, errNoSigner)
	case attest.KindIntelQEIdentity:
		id, err := verifyQEIdentity(s.Body, nil)
		return attest.Issue{Subject: "QE identity", Number: int64(id.evaluation), At: id.issued}, errors.Is(err, errNoSigner)
	}
	return attest.Issue{}, false
}
