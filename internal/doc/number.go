package doc

import (
	"strconv"
	"strings"

	"github.com/assay-network/assay/internal/canon"
)

// integer returns the plain decimal form of a JSON number, so that 1e6, 1000000 and 1000000.0 are one value, or says
// why it is none.
func integer(number string) (plain, why string) {
	digits, negative := strings.CutPrefix(number, "-")
	exponent := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		e, err := strconv.Atoi(digits[i+1:])
		if err != nil || e > 1e6 || e < -1e6 {
			return "", "its exponent is out of range"
		}
		digits, exponent = digits[:i], e
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	for strings.HasSuffix(digits, "0") {
		digits, exponent = digits[:len(digits)-1], exponent+1
	}
	const outside = "it is outside ±(2^53−1)"
	switch {
	case digits == "":
		return "0", ""
	case exponent < 0:
		return "", "it has a fraction"
	case len(digits)+exponent > 16:
		return "", outside
	}
	plain = digits + strings.Repeat("0", exponent)
	if n, err := strconv.ParseInt(plain, 10, 64); err != nil || n > canon.MaxInt {
		return "", outside
	}
	if negative {
		plain = "-" + plain
	}
	return plain, ""
}
