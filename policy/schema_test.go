package policy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/policy"
)

// valid says what a JSON Schema has against a value. It knows the keywords that our schema uses, and fails on any other:
// a keyword that nobody checks would be one that nobody tested.
func valid(schema map[string]any, v any, at string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, at+": "+fmt.Sprintf(format, args...)) }
	text, isText := v.(string)
	number, isNumber := v.(float64)
	for key, want := range schema {
		switch key {
		case "$schema", "title", "description":
		case "type":
			ok := false
			kinds, several := want.([]any)
			if !several {
				kinds = []any{want}
			}
			for _, k := range kinds {
				switch k {
				case "string":
					ok = ok || isText
				case "integer":
					ok = ok || isNumber && number == float64(int64(number))
				case "boolean":
					_, is := v.(bool)
					ok = ok || is
				case "array":
					_, is := v.([]any)
					ok = ok || is
				case "object":
					_, is := v.(map[string]any)
					ok = ok || is
				}
			}
			if !ok {
				fault("want %v", want)
			}
		case "const":
			if v != want {
				fault("want %v", want)
			}
		case "enum":
			if !slices.Contains(want.([]any), v) {
				fault("want one of %v", want)
			}
		case "pattern":
			if isText && !regexp.MustCompile(want.(string)).MatchString(text) {
				fault("%q is not of the form", text)
			}
		case "minLength":
			if isText && float64(len(text)) < want.(float64) {
				fault("too short")
			}
		case "minimum":
			if isNumber && number < want.(float64) {
				fault("too little")
			}
		case "minItems":
			if list, ok := v.([]any); ok && float64(len(list)) < want.(float64) {
				fault("too few")
			}
		case "items":
			list, _ := v.([]any)
			for i, item := range list {
				faults = append(faults, valid(want.(map[string]any), item, fmt.Sprintf("%s/%d", at, i))...)
			}
		case "required":
			object, _ := v.(map[string]any)
			for _, k := range want.([]any) {
				if _, ok := object[k.(string)]; !ok {
					fault("no %s", k)
				}
			}
		case "properties", "additionalProperties":
			object, _ := v.(map[string]any)
			properties, _ := schema["properties"].(map[string]any)
			for k, item := range object {
				s, ok := properties[k].(map[string]any)
				switch {
				case !ok && key == "additionalProperties":
					fault("unknown key %s", k)
				case ok && key == "properties":
					faults = append(faults, valid(s, item, at+"/"+k)...)
				}
			}
		default:
			fault("the schema has a keyword %s that this test does not know", key)
		}
	}
	return faults
}

// Every policy that loads is valid by the schema: the built-ins, those that the questions lead to, and the examples of
// FORMAT.md. What is refused for its form is not.
func TestSchemaAgainstExamples(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(policy.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	holds := func(text []byte) []string {
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		return valid(schema, v, "")
	}
	good := map[string][]byte{}
	for _, name := range policy.Builtins() {
		good[name] = builtin(t, name).Canonical()
	}
	format, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(format), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	drafted, err := policy.Draft(policy.Answers{Name: "mine", DataClass: policy.DataCard, Countries: []string{"NO"}, TEE: policy.TEETDX, GPUs: 2, MaxAge: 60, Issuers: []string{"a.example"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"FORMAT.md": example, "draft": string(drafted), "whole": whole} {
		p, err := policy.Load("p.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		good[name] = p.Canonical()
	}
	for name, text := range good {
		if faults := holds(text); faults != nil {
			t.Errorf("%s: %q", name, faults)
		}
	}
	const sound = `{"type":"assay/policy/v1","name":"x","require":[{"claim":"sevsnp.vmpl","of":"cpu","is":0}]}`
	for name, edit := range map[string][2]string{
		"another type":    {"policy/v1", "policy/v2"},
		"unknown key":     {`"name"`, `"nmae"`},
		"empty require":   {`[{"claim":"sevsnp.vmpl","of":"cpu","is":0}]`, `[]`},
		"unknown class":   {`"of":"cpu"`, `"of":"cpus"`},
		"no class":        {`"of":"cpu",`, ``},
		"no age":          {`"is":0`, `"max-age":"1d"`},
		"age as number":   {`"is":0`, `"max-age":60`},
		"truth for value": {`"is":0`, `"is":true`},
		"a fraction":      {`"is":0`, `"is":0.5`},
		"empty value":     {`"is":0`, `"is":""`},
		"count of nought": {`"is":0`, `"count":0`},
		"unknown data":    {`"require"`, `"data-class":"secret","require"`},
		"short digest":    {`"require"`, `"references":["ab"],"require"`},
		"empty issuers":   {`"require"`, `"issuers":[],"require"`},
	} {
		text := strings.Replace(sound, edit[0], edit[1], 1)
		if faults := holds([]byte(text)); faults == nil {
			t.Errorf("%s: valid by the schema: %s", name, text)
		}
		if _, err := policy.Load("x.json", []byte(text)); err == nil {
			t.Errorf("%s: loads: %s", name, text)
		}
	}
	if faults := holds([]byte(sound)); faults != nil {
		t.Error(faults)
	}
}
