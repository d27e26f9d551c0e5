package tdx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
)

// Status is a TCB status of Intel's, as a set of what is wrong; none is UpToDate. What Intel calls convergence, of the
// platform's status with those of TDX module and quoting enclave, is then the union (Intel SGX DCAP Quote Verification
// Library, "TCB status" of the quote verification algorithm).
type Status uint8

// What can be wrong.
const (
	swHardening   Status = 1 << iota // SWHardeningNeeded
	configuration                    // ConfigurationNeeded
	outOfDate                        // OutOfDate; it leaves no word for swHardening
	relaunch                         // the TD was launched under an older TDX module than runs now
	revokedTCB                       // Revoked, whatever else is wrong
)

// statusWords are the words that Intel publishes.
var statusWords = map[string]Status{
	"UpToDate":                          0,
	"SWHardeningNeeded":                 swHardening,
	"ConfigurationNeeded":               configuration,
	"ConfigurationAndSWHardeningNeeded": configuration | swHardening,
	"OutOfDate":                         outOfDate,
	"OutOfDateConfigurationNeeded":      outOfDate | configuration,
	"Revoked":                           revokedTCB,
}

func (s *Status) parse(word string) error {
	v, ok := statusWords[word]
	if !ok {
		return fmt.Errorf("status %.40q is not known to this build", word)
	}
	*s = v
	return nil
}

func (s Status) String() string {
	switch {
	case s&revokedTCB != 0:
		return "Revoked"
	case s&outOfDate != 0 && s&configuration != 0:
		return "OutOfDateConfigurationNeeded"
	case s&outOfDate != 0:
		return "OutOfDate"
	case s&relaunch != 0 && s&configuration != 0:
		return "TDRelaunchAdvisedConfigurationNeeded"
	case s&relaunch != 0:
		return "TDRelaunchAdvised"
	case s&configuration != 0 && s&swHardening != 0:
		return "ConfigurationAndSWHardeningNeeded"
	case s&configuration != 0:
		return "ConfigurationNeeded"
	case s&swHardening != 0:
		return "SWHardeningNeeded"
	}
	return "UpToDate"
}

// and joins what is said of two parts of one TCB: both statuses, both parts' advisories, the older date.
func (f finding) and(o finding) finding {
	f.status |= o.status
	if o.date < f.date {
		f.date = o.date
	}
	f.advisories = slices.Concat(f.advisories, o.advisories)
	slices.Sort(f.advisories)
	f.advisories = slices.Compact(f.advisories)
	return f
}

func (f finding) String() string {
	s := f.status.String() + " of " + f.date.String()[:len("2006-01-02")]
	if len(f.advisories) > 0 {
		s += " (" + strings.Join(f.advisories, ", ") + ")"
	}
	return s
}

// platform is what a platform level is compared with: the PCK certificate's SGX components and PCESVN, and a TEE TCB SVN
// of the TD report.
type platform struct {
	sgx    SVN
	pcesvn uint16
	tee    SVN
}

// Places in a TEE TCB SVN.
const (
	moduleSVN     = 0 // ISVSVN of the TDX module
	moduleVersion = 1 // 0 on TDX 1.0, whose module has no identity of its own
)

// short names what the platform lacks to reach a level, in words; none means that it reaches it. From module version 1
// on the TDX module is judged by its own identity, and the first two TDX components say nothing.
func (p platform) short(l platformLevel) (lacks []string) {
	for i := range l.sgx {
		if p.sgx[i] < l.sgx[i] {
			lacks = append(lacks, fmt.Sprintf("SGX component %d needs %d, has %d", i+1, l.sgx[i], p.sgx[i]))
		}
	}
	if int(p.pcesvn) < l.pcesvn {
		lacks = append(lacks, fmt.Sprintf("PCESVN needs %d, has %d", l.pcesvn, p.pcesvn))
	}
	for i := range l.tdx {
		if i <= moduleVersion && p.tee[moduleVersion] > 0 {
			continue
		}
		if p.tee[i] < l.tdx[i] {
			lacks = append(lacks, fmt.Sprintf("TDX component %d needs %d, has %d", i+1, l.tdx[i], p.tee[i]))
		}
	}
	return lacks
}

// level returns the first level that the platform reaches. gap is what it lacks to reach the highest, or with no level at
// all, the lowest.
func (t *tcbInfo) level(p platform) (l platformLevel, gap []string, ok bool) {
	for i, l := range t.levels {
		lacks := p.short(l)
		if len(lacks) == 0 {
			return l, gap, true
		}
		if i == 0 || i == len(t.levels)-1 {
			gap = lacks
		}
	}
	return l, gap, false
}

// identity returns the identity of the module of a version.
func (t *tcbInfo) identity(version uint8) (moduleIdentity, bool) {
	if version == 0 {
		return t.module, true
	}
	id := fmt.Sprintf("TDX_%02X", version)
	for _, m := range t.modules {
		if strings.EqualFold(m.id, id) {
			return m, true
		}
	}
	return moduleIdentity{id: id}, false
}

// enclave returns the first level of a list whose ISVSVN is reached; gap as of [tcbInfo.level].
func enclave(levels []enclaveLevel, what string, svn int) (l enclaveLevel, gap []string, ok bool) {
	for i, l := range levels {
		if svn >= l.svn {
			return l, gap, true
		}
		if i == 0 || i == len(levels)-1 {
			gap = []string{fmt.Sprintf("%s ISVSVN needs %d, has %d", what, l.svn, svn)}
		}
	}
	return l, gap, false
}

// verdict is what TCB info, with a QE identity where there is one, says of a quote.
type verdict struct {
	finding
	noLevel string   // the part that reaches no level; empty: all do
	gap     []string // what is short of the highest level, or of the lowest
	parts   string   // the parts' own statuses, for people
}

// judge converges the statuses of platform, TDX module and quoting enclave. qe is nil where no identity is at hand. A TD
// of 1.5 has two TEE TCB SVNs: of its launch, and of now. Both count; where only the launch is out of date, the TD should be
// relaunched.
func (t *tcbInfo) judge(q *Quote, p *pck, qe *qeIdentity) (v verdict) {
	var common finding // of the QE, on either side
	common.date = 1<<62 - 1
	if qe != nil {
		l, gap, ok := enclave(qe.levels, "quoting enclave", int(q.QEReport.SecurityNumber()))
		if v.gap = gap; !ok {
			v.noLevel = "quoting enclave"
			return v
		}
		common = l.finding
		v.parts = "quoting enclave " + l.String() + "; "
	}
	launch, ok := t.judgeTEE(&v, platform{p.svns, p.pcesvn, q.TEETCBSVN}, "")
	if !ok {
		return v
	}
	v.finding = launch
	if q.BodyType == BodyTD15 && q.TEETCBSVN2 != q.TEETCBSVN {
		now, ok := t.judgeTEE(&v, platform{p.svns, p.pcesvn, q.TEETCBSVN2}, " now")
		if !ok {
			return v
		}
		v.finding = launch.and(now)
		if v.status&outOfDate != 0 && now.status&outOfDate == 0 {
			v.status = v.status&^outOfDate | relaunch
		}
	}
	v.finding = v.finding.and(common)
	v.parts = strings.TrimSuffix(v.parts, "; ")
	return v
}

// judgeTEE judges platform and module by one TEE TCB SVN, and notes in v what it found.
func (t *tcbInfo) judgeTEE(v *verdict, p platform, when string) (f finding, ok bool) {
	l, gap, ok := t.level(p)
	if !ok {
		v.noLevel, v.gap = "platform"+when, gap
		return f, false
	}
	v.gap = append(v.gap, gap...)
	f = l.finding
	v.parts += "platform" + when + " " + l.String() + "; "
	if version := p.tee[moduleVersion]; version > 0 {
		m, _ := t.identity(version)
		l, gap, ok := enclave(m.levels, "TDX module "+m.id, int(p.tee[moduleSVN]))
		if !ok {
			v.noLevel, v.gap = "TDX module "+m.id+when, gap
			return f, false
		}
		v.gap = append(v.gap, gap...)
		f = f.and(l.finding)
		v.parts += "TDX module " + m.id + when + " " + l.String() + "; "
	}
	return f, true
}

// dateNumber writes a date as the number YYYYMMDD, which a policy compares.
func dateNumber(at canon.Time) string {
	return strings.ReplaceAll(at.String()[:len("2006-01-02")], "-", "")
}
