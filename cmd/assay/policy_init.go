package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

// maxAnswer is how many bytes an answer may have.
const maxAnswer = 4 << 10

// initFlags are the answers to the six questions, as flags.
type initFlags struct {
	data, tee, age     string
	gpus               int
	countries, issuers []string
}

func (a *app) policyInitCommand() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init FILE.yaml",
		Short: "Write a policy with comments, and tests that it passes",
		Long: `Write a policy with comments, and tests that it passes.

Six things are asked: data class, countries, CPU TEE, GPUs, evidence age, and who
must vouch for the provider. Those that a flag answers are not asked; an empty answer
takes what stands in brackets. FILE.yaml is the policy, which runs as it is, and
FILE.tests.yaml beside it the tests: a host that it accepts, and for each rule one
that it refuses. Neither is written over.`,
		Example: `  assay policy init mine.yaml
  assay policy init mine.yaml --data-class personal --countries DE,FR --tee sev-snp --gpus 8 --max-age 1h --issuers register.example`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.policyInit(args[0], f, func(name string) bool { return c.Flags().Changed(name) })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.data, "data-class", "", "`CLASS` of the job's data: "+join(policy.DataClasses))
	fl.StringSliceVar(&f.countries, "countries", nil, "`CODES` of countries (ISO 3166-1) under whose law the provider may run it; none: anywhere")
	fl.StringVar(&f.tee, "tee", "", "`KIND` of CPU TEE: "+strings.Join(policy.TEEs, ", "))
	fl.IntVar(&f.gpus, "gpus", 0, "`N` GPUs in confidential mode, at least; 0: none is asked for")
	fl.StringVar(&f.age, "max-age", "", "`AGE` that the evidence may have, such as 24h or 15m")
	fl.StringSliceVar(&f.issuers, "issuers", nil, "`IDS` of whoever must vouch for the provider; none: any issuer that the verifier registered")
	return cmd
}

// join lists words.
func join[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

func (a *app) policyInit(file string, f initFlags, given func(flag string) bool) error {
	base, ok := strings.CutSuffix(file, ".yaml")
	if !ok {
		return fmt.Errorf("%s: want a name that ends in .yaml", file)
	}
	name := filepath.Base(base) // before anything is asked
	if err := policy.CheckName(name); err != nil {
		return fmt.Errorf("%s: the file names the policy: %w", file, err)
	}
	answers, err := a.answers(f, given)
	if err != nil {
		return err
	}
	answers.Name = name
	text, err := policy.Draft(answers)
	if err != nil {
		return err
	}
	p, err := policy.Load(file, text)
	if err != nil {
		return err
	}
	for _, name := range []string{file, base + testsSuffix} {
		if _, err := os.Lstat(name); err == nil {
			return fmt.Errorf("%s: it is there already, and nothing is written over it", name)
		}
	}
	tests := p.Example(canon.At(a.now())).YAML()
	if err := a.writeNew(file, text); err != nil {
		return err
	}
	if err := a.writeNew(base+testsSuffix, tests); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s\n%s\n", file, base+testsSuffix)
	a.say("now: assay policy lint %s; assay policy test %s; assay policy explain %s", file, file, file)
	return nil
}

// membersOf puts a union's members where its name stands. A country may stand in both.
func membersOf(words []string) (all []string) {
	for _, w := range words {
		members := policy.Members(w)
		if members == nil {
			members = []string{w}
		} else {
			members = slices.DeleteFunc(members, func(c string) bool { return slices.Contains(words, c) })
		}
		all = append(all, members...)
	}
	return all
}

// answers takes what the flags say, and asks for the rest.
func (a *app) answers(f initFlags, given func(flag string) bool) (policy.Answers, error) {
	var x policy.Answers
	in := bufio.NewReader(io.LimitReader(a.stdin, 6*maxAnswer))
	ask := func(flag, question, usual, said string, take func(string) error) error {
		if given(flag) {
			if err := take(said); err != nil {
				return fmt.Errorf("--%s: %w", flag, err)
			}
			return nil
		}
		for {
			fmt.Fprintf(a.stderr, "%s [%s] ", question, usual)
			line, err := in.ReadString('\n')
			if err != nil && line == "" {
				fmt.Fprintln(a.stderr)
				return withHint(fmt.Errorf("no answer to %q", question), "answer with a flag: --%s", flag)
			}
			answer := strings.TrimSpace(line)
			if answer == "" {
				answer = usual
			}
			if err = take(answer); err == nil {
				return nil
			}
			fmt.Fprintf(a.stderr, "  %v\n", err)
		}
	}
	words := func(into *[]string) func(string) error {
		return func(s string) error {
			*into = strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
			if len(*into) == 1 && (*into)[0] == "any" {
				*into = nil
			}
			return nil
		}
	}
	for _, q := range []func() error{
		func() error {
			return ask("data-class", "What is the data? "+join(policy.DataClasses), string(policy.DataPersonal), f.data, func(s string) error { return x.DataClass.UnmarshalText([]byte(s)) })
		},
		func() error {
			return ask("countries", "Under the law of which countries may it run? codes such as DE, FR, all of the EU or EEA, or any", "any", strings.Join(f.countries, ","), func(s string) error {
				if err := words(&x.Countries)(s); err != nil {
					return err
				}
				x.Countries = membersOf(x.Countries)
				return policy.CheckCountries(x.Countries)
			})
		},
		func() error {
			return ask("tee", "Which CPU TEE? "+strings.Join(policy.TEEs, ", "), policy.TEESEVSNP, f.tee, func(s string) error {
				x.TEE = s
				return policy.CheckTEE(s)
			})
		},
		func() error {
			return ask("gpus", "How many GPUs in confidential mode, at least? 0 for none", "0", strconv.Itoa(f.gpus), func(s string) error {
				n, err := strconv.Atoi(s)
				if err != nil || n < 0 || n > policy.MaxGPUs {
					return fmt.Errorf("%.20q: want a number from 0 to %d", s, policy.MaxGPUs)
				}
				x.GPUs = n
				return nil
			})
		},
		func() error {
			return ask("max-age", "How old may the evidence be?", x.DataClass.DefaultMaxAge().String(), f.age, func(s string) error { return x.MaxAge.UnmarshalText([]byte(s)) })
		},
		func() error {
			if x.DataClass == policy.DataPublic && x.Countries == nil && !given("issuers") {
				return nil // nothing is asked of the provider that somebody could vouch for
			}
			return ask("issuers", "Who must vouch for the provider? ids of issuers, or any", "any", strings.Join(f.issuers, ","), func(s string) error {
				if err := words(&x.Issuers)(s); err != nil {
					return err
				}
				for _, id := range x.Issuers {
					if err := policy.CheckIssuer(id); err != nil {
						return err
					}
				}
				return nil
			})
		},
	} {
		if err := q(); err != nil {
			return x, err
		}
	}
	return x, nil
}
