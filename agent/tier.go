package agent

// Tier is a tier of providers, as far as a machine needs to know of it. The rules are the verifier's (package
// market/vetting); an agent carries none of them, and says in its own words what is asked beyond the machine.
type Tier struct {
	Name string // as policies spell it
	TEE  bool   // asks for a CPU TEE whose evidence a confidential policy accepts
	Asks []Ask  // what it asks that no lesser tier asks
}

// Ask is one thing that a tier asks.
type Ask struct {
	Criterion string // the word of the verifier's rules
	Words     string // for people
}

// Tiers returns the tiers, least first (users' study, section 3).
func Tiers() []Tier {
	return []Tier{
		{Name: "anonymous", Asks: []Ask{{"stake", "a stake"}}},
		{Name: "identified", Asks: []Ask{
			{"identity", "the legal entity behind it, checked by an issuer"},
			{"contact", "a contact that answers incidents in time"},
			{"hardware", "a measured benchmark, which the verifier asks for"},
		}},
		{Name: "attested", TEE: true, Asks: []Ask{
			{"hardware", "a CPU TEE: an SEV-SNP or TDX guest whose evidence a confidential policy accepts"},
			{"record", "30 days of record"},
		}},
		{Name: "attested-facility", TEE: true, Asks: []Ask{
			{"facility", "a facility that is bound to its hardware or audited on site"},
			{"facility-audit", "an ISO 27001 or SOC 2 type II report of it, in date, by an auditor who is not the operator, and a second auditor who bound or audited it"},
			{"witnesses", "two witnesses that cosign the verifier's log"},
		}},
	}
}

// Reach returns the highest tier that a machine can carry, and the one after it. What the highest tier of all asks more is
// its site's: no machine shows it.
func Reach(tee bool) (reached, next Tier) {
	all := Tiers()
	for i := range all[:len(all)-1] {
		if next = all[i+1]; next.TEE && !tee {
			return all[i], next
		}
		reached = all[i]
	}
	return reached, next
}
