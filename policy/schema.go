package policy

import (
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/assay-network/assay/internal/canon"
)

// Schema returns the JSON Schema (draft 2020-12) of the policy document, made from the Go structs. It says what an
// editor can check; rules that can never be met are found by [Load] alone.
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[Document]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = Type
	s["properties"].(map[string]any)["type"] = map[string]any{"const": Type}
	b, err := json.Marshal(s, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		panic("policy: internal error: " + err.Error())
	}
	return append(b, '\n')
}

func schemaOf(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[Value]():
		return map[string]any{"type": []string{"string", "integer"}, "minLength": 1}
	case reflect.TypeFor[Class]():
		return map[string]any{"enum": classes}
	case reflect.TypeFor[DataClass]():
		return map[string]any{"enum": DataClasses}
	case reflect.TypeFor[Age]():
		return map[string]any{"type": "string", "pattern": agePattern, "minLength": 2}
	case reflect.TypeFor[canon.Digest]():
		return map[string]any{"type": "string", "pattern": "^[0-9a-f]{64}$"}
	case reflect.TypeFor[canon.Time]():
		return map[string]any{"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"}
	}
	switch t.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": 1}
	case reflect.Slice:
		return map[string]any{"type": "array", "minItems": 1, "items": schemaOf(t.Elem())}
	case reflect.Struct:
		return objectSchema(t)
	}
	panic("policy: internal error: no schema of " + t.String())
}

func objectSchema(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		s := schemaOf(f.Type)
		s["description"] = f.Tag.Get("about")
		properties[key] = s
		if options == "" {
			required = append(required, key)
		}
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
}
