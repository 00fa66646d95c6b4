package config

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Schema returns the JSON Schema of the file, for editors. It is derived from the
// structs the parser fills, so it cannot know other keys than the parser does.
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[Config](), field{})
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "tollgate.yaml"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("config: " + err.Error()) // maps of strings, numbers and bools always marshal
	}
	return append(out, '\n')
}

type object = map[string]any

// environment allows ${NAME} where a text has a shape.
const environment = `.*\$\{`

// special are the types that read themselves or have a shape.
func special(t reflect.Type) object {
	text := func(pattern, example string) object {
		return object{"type": "string", "pattern": "^(" + pattern + "|" + environment + ".*)$", "examples": []string{example}}
	}
	const duration = `([0-9]+(\.[0-9]+)?` + durationUnits + `)+`
	names := object{"type": "array", "items": object{"type": "string"}, "minItems": 1}
	switch t {
	case reflect.TypeFor[Duration]():
		return text(duration, "30s")
	case reflect.TypeFor[Sync]():
		return text("always|"+duration, "always")
	case reflect.TypeFor[Size]():
		return text("[0-9]{1,15}(B|KiB|MiB|GiB|TiB)", "512KiB")
	case reflect.TypeFor[Secret]():
		file := object{"type": "object", "properties": object{"file": object{"type": "string"}}, "required": []string{"file"}, "additionalProperties": false}
		return object{"anyOf": []any{object{"type": "string"}, file}}
	case reflect.TypeFor[Class]():
		return object{"enum": classes}
	case reflect.TypeFor[SchemaRef]():
		return object{"type": []string{"object", "string"}}
	case reflect.TypeFor[Argv]():
		return object{"anyOf": []any{object{"type": "string", "minLength": 1}, names}}
	case reflect.TypeFor[Breaker]():
		return object{"anyOf": []any{object{"const": "off"}, schemaOf(reflect.TypeFor[BreakerRules](), field{})}}
	case reflect.TypeFor[Lanes]():
		return object{"anyOf": []any{names, structSchema(t)}}
	}
	return nil
}

func schemaOf(t reflect.Type, f field) object {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := special(t)
	if s == nil {
		s = plainSchema(t, f)
	}
	if f.doc != "" {
		s["description"] = f.doc
	}
	if f.preset != "" {
		s["default"] = presetValue(f.preset, t)
	}
	return s
}

func plainSchema(t reflect.Type, f field) object {
	switch t.Kind() {
	case reflect.Struct:
		return structSchema(t)
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem(), field{})}
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem(), field{})}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return bounded(object{"type": "integer"}, f)
	case reflect.Float64:
		return bounded(object{"type": "number"}, f)
	default:
		if f.one != nil {
			return object{"anyOf": []any{object{"enum": f.one}, object{"type": "string", "pattern": environment}}}
		}
		return object{"type": "string"}
	}
}

func structSchema(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range fields(t) {
		properties[f.name] = schemaOf(t.Field(f.index).Type, f)
		if f.need != "" {
			required = append(required, f.name)
		}
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func bounded(s object, f field) object {
	if f.min != "" {
		s["minimum"] = json.Number(f.min)
	}
	if f.max != "" {
		s["maximum"] = json.Number(f.max)
	}
	return s
}

// presetValue is a default as JSON has it.
func presetValue(preset string, t reflect.Type) any {
	switch t.Kind() {
	case reflect.Bool:
		return preset == "true"
	case reflect.Slice:
		return []string{strings.Trim(preset, "[]")}
	case reflect.Int, reflect.Float64:
		return json.Number(preset)
	}
	return preset // durations and sizes too
}
