package policy

import (
	"fmt"
	"slices"
	"strings"
)

// countries are the codes of ISO 3166-1 alpha-2, as of its newsletter VI-15 and the changes since (249 codes).
var countries = strings.Fields(`
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ
CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR
GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP
KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT
MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW
SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG
UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW`)

// unions are the members of unions whose law people mean where they say where data may go: of the European Union since
// 2020 (Treaty on European Union, article 52), and of the European Economic Area.
var unions = map[string][]string{
	"EU":  strings.Fields("AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK"),
	"EEA": strings.Fields("AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IS IT LI LT LU LV MT NL NO PL PT RO SE SI SK"),
}

// Members returns the countries of a union, EU or EEA; of any other word none. A policy names countries, so that who joins
// or leaves a union changes no policy.
func Members(union string) []string { return slices.Clone(unions[union]) }

// CheckCountries refuses a code that is no country's.
func CheckCountries(codes []string) error {
	for i, c := range codes {
		switch {
		case !slices.Contains(countries, c):
			return fmt.Errorf("%.20q is no country of ISO 3166-1 (alpha-2)%s", c, countryInstead(c))
		case slices.Contains(codes[:i], c):
			return fmt.Errorf("%s is named twice", c)
		}
	}
	return nil
}

// countryInstead ends a sentence about a code that is none.
func countryInstead(code string) string {
	switch code {
	case "UK":
		return ": the United Kingdom is GB"
	case "EL":
		return ": Greece is GR"
	case "EU", "EEA":
		return ": name its members: " + strings.Join(unions[code], ", ")
	}
	for _, c := range countries {
		if strings.EqualFold(c, code) {
			return ": write " + c
		}
	}
	return ""
}
