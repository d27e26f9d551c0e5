package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

const policyHelp = `Write, check, try, explain and sign policies.

A policy says what a machine, and whoever runs it, must prove. Where a command takes
a POLICY it is a built-in by its name, a file, or FILE,KEY.pem: a signed file and the
public key that must have signed it. A file that is not signed is whatever whoever
can write it made it.`

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Write, check, try, explain and sign policies",
		Long:  policyHelp,
		Example: `  assay policy init mine.yaml
  assay policy lint mine.yaml
  assay policy test mine.yaml log.tar --relax tcb
  assay policy explain mine.yaml host.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.policyInitCommand(), a.policyLintCommand(), a.policyTestCommand(), a.policyExplainCommand(), a.policyShowCommand())
	cmd.AddCommand(a.policySignCommand(), a.policyReferencesCommand(), a.policySchemaCommand())
	return cmd
}

func (a *app) policyShowCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show [POLICY]",
		Short: "Print a policy as it is written; without a name, list the built-in policies",
		Example: `  assay policy show
  assay policy show confidential-cpu
  assay policy show my-policy.yaml -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("output %q: want text or json", output)
			}
			if len(args) == 0 {
				return a.listPolicies(output)
			}
			p, _, err := inputs.Policy(args[0])
			if err != nil {
				return err
			}
			if text, ok := policy.BuiltinSource(args[0]); ok && output == "text" {
				_, err = a.stdout.Write(text)
				return err
			}
			fmt.Fprintf(a.stdout, "%s\n", indent(p.Canonical()))
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text: built-ins with their comments; or json")
	return cmd
}

// listed is one built-in policy of a listing.
type listed struct {
	Name   string       `json:"name"`
	Digest canon.Digest `json:"digest"`
	About  string       `json:"about"`
}

func (a *app) listPolicies(output string) error {
	for _, name := range policy.Builtins() {
		p, _ := policy.Builtin(name)
		if output == "text" {
			fmt.Fprintf(a.stdout, "%-18s %s  %s\n", name, p.Digest().Short(), p.About())
			continue
		}
		b, err := canon.Marshal(listed{name, p.Digest(), p.About()})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", b)
	}
	return nil
}

func (a *app) policySchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of a policy document, for editors",
		Example: "  assay policy schema > policy.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(policy.Schema())
			return err
		},
	}
}

func (a *app) policySignCommand() *cobra.Command {
	var key, out string
	cmd := &cobra.Command{
		Use:   "sign POLICY --key FILE",
		Short: "Sign a policy with a key of your own",
		Long: `Sign a policy with a key of your own.

What is signed is the policy's canonical JSON, in an envelope (DSSE) of payload type
` + policy.Type + `. The key is PKCS #8 in PEM, also encrypted, Ed25519 or P-256, readable by nobody
else. Whoever uses the signed file names the public key with it: FILE,KEY.pem.`,
		Example: `  openssl genpkey -algorithm ed25519 -out me.pem && chmod 600 me.pem
  openssl pkey -in me.pem -pubout -out me.pub
  assay policy sign mine.yaml --key me.pem --out mine.signed.json
  assay verify bundle.json --policy mine.signed.json,me.pub`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if key == "" {
				return errors.New("want --key: the file of your private key")
			}
			return a.policySign(args[0], key, out)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "`FILE` of your private key")
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write, new (default: standard output)")
	return cmd
}

func (a *app) policySign(name, keyFile, out string) error {
	if _, ok := policy.Builtin(name); ok {
		return withHint(fmt.Errorf("policy %s: it is built in, and this build vouches for it", name), "assay policy init writes one of your own")
	}
	p, _, err := inputs.Policy(name)
	if err != nil {
		return err
	}
	key, err := a.readPrivateKey(keyFile)
	if err != nil {
		return err
	}
	env, err := ledger.Seal(policy.Type, p.Canonical(), key)
	if err != nil {
		return err
	}
	data, err := canon.Marshal(env)
	if err != nil {
		return err
	}
	if err := a.writeNew(out, append(data, '\n')); err != nil {
		return err
	}
	a.say("policy %s, digest %s, signed by key %s", p.Name(), p.Digest(), env.Signatures[0].KeyID)
	return nil
}

// sayWhose says whose word a policy is, where it is not this build's.
func (a *app) sayWhose(p *policy.Policy, from string) {
	if _, ok := policy.Builtin(p.Name()); !ok {
		a.say("policy %s is %s", p.Name(), from)
	}
}

// writeNew writes a file that is not there yet, or to standard output where no name is given.
func (a *app) writeNew(name string, data []byte) error {
	if name == "" {
		_, err := a.stdout.Write(data)
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: it is there already, and nothing is written over it", name)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
