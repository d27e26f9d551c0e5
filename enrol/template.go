package enrol

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// TemplateCSV returns a commented inventory without a host. It is read as it is.
func TemplateCSV() []byte {
	var b strings.Builder
	b.WriteString("# Inventory of machines that are to enrol. Lines that begin with # are comments; the first other line names the columns.\n")
	b.WriteString("# Columns may stand in another order, and those that are not required may be left out. One of ek, chip_id and ppid is needed.\n")
	b.WriteString("# A spreadsheet that takes an id for a number rounds it: have those columns as text.\n#\n")
	var names, example []string
	for _, c := range Columns {
		need := ""
		if c.Required {
			need = " (required)"
		}
		fmt.Fprintf(&b, "# %-8s%s %s\n", c.Name, need, c.About)
		names, example = append(names, c.Name), append(example, c.Example)
	}
	fmt.Fprintf(&b, "#\n# For example:\n# %s\n%s\n", strings.Join(example, ","), strings.Join(names, ","))
	return []byte(b.String())
}

// TemplateJSON returns the same in JSON, with the comments as a member that nobody reads.
func TemplateJSON() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "{\n  \"type\": %q,\n  \"about\": {\n", FileType)
	for i, c := range Columns {
		about := c.About
		if c.Name == columnGPUs {
			about = strings.Replace(about, "; separated by spaces", "; a list of text", 1)
		}
		if c.Required {
			about = "required: " + about
		}
		text, err := json.Marshal(about)
		if err != nil {
			panic("enrol: internal error: " + err.Error())
		}
		comma := ","
		if i == len(Columns)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "    %q: %s%s\n", c.Name, text, comma)
	}
	b.WriteString("  },\n  \"hosts\": []\n}\n")
	return []byte(b.String())
}
