package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Value is the right side of a comparison, in the text form of the claim's kind.
type Value string

// UnmarshalScalar takes numbers as well as text, so that `is: 0` can be written. That a number fits is judged with the
// claim's kind at hand.
func (v *Value) UnmarshalScalar(value string, _ bool) error {
	switch {
	case value == "":
		return errors.New("empty value")
	case len(value) > MaxText:
		return fmt.Errorf("value of %d bytes, at most %d", len(value), MaxText)
	}
	*v = Value(value)
	return nil
}

// Age is a length of time in seconds. Its text form is the number of its largest unit: 24h, 15m, 90s.
type Age int64

func (a Age) String() string {
	switch {
	case a%3600 == 0:
		return fmt.Sprintf("%dh", a/3600)
	case a%60 == 0:
		return fmt.Sprintf("%dm", a/60)
	}
	return fmt.Sprintf("%ds", int64(a))
}

// MarshalText writes the text form.
func (a Age) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// agePattern is the text form that is read; every such text is also a duration of Go.
const agePattern = "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"

var ageForm = regexp.MustCompile(agePattern)

// UnmarshalText reads hours, minutes and seconds: 24h, 1h30m, 90s.
func (a *Age) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d <= 0 || !ageForm.Match(text) {
		return fmt.Errorf("age %.40q: want a duration of whole seconds, such as 24h or 15m", text)
	}
	*a = Age(d / time.Second)
	return nil
}

// tcbParts are the parts of a TCB in the order of its text form. fmc is there on Turin only.
var tcbParts = [...]string{"fmc", "bl", "tee", "snp", "ucode"}

// tcb is a TCB by parts; -1 is a part that is not named.
type tcb [len(tcbParts)]int16

// parseTCB reads "bl=4 tee=0 snp=24 ucode=219": at least one part, in order, each at most once.
func parseTCB(s string) (tcb, error) {
	t := tcb{-1, -1, -1, -1, -1}
	next := 0
	for word := range strings.SplitSeq(s, " ") {
		name, number, ok := strings.Cut(word, "=")
		n, err := strconv.ParseUint(number, 10, 8)
		i := slices.Index(tcbParts[next:], name)
		if !ok || err != nil || i < 0 || strconv.FormatUint(n, 10) != number {
			return t, fmt.Errorf("TCB %.80q: want parts of fmc, bl, tee, snp, ucode in this order, each 0 to 255, such as %q", s, "bl=4 tee=0 snp=24 ucode=219")
		}
		t[next+i] = int16(n)
		next += i + 1
	}
	return t, nil
}

// atLeast compares part by part: every part that the floor names must be there and not lower. A TCB is no number, a
// high part does not make up for a low one.
func (t tcb) atLeast(floor tcb) bool {
	for i := range floor {
		if t[i] < floor[i] {
			return false
		}
	}
	return true
}

// hasWords reports whether every wanted word is among the words of value, which are parted by single spaces.
func hasWords(value string, want []string) bool {
	for _, w := range want {
		found := false
		for v := range strings.SplitSeq(value, " ") {
			found = found || v == w
		}
		if !found {
			return false
		}
	}
	return true
}
