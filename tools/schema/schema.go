// Package schema checks a tool's arguments and results against its JSON Schema.
// A schema is compiled once, when the catalogue is built, and is then safe for
// concurrent use.
//
// It reads nothing: a schema that refers outside itself is refused, whatever the
// scheme (the library's default loader would open file:// references). What a
// violation leads to is the gate's; here it only gets a name and a place.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"tollgate/dedupe"
)

// Bounds of what is looked at. A document's depth is bounded before it is decoded.
const (
	MaxSchema   = 1 << 20 // bytes of a schema
	MaxDocument = 8 << 20 // bytes of a document
	MaxDepth    = dedupe.MaxDepth
)

// root names the schema to the compiler. It is no address anybody could load.
const root = "tool:///schema.json"

// Schema is a compiled schema. It implements dispatcher.Validator.
type Schema struct{ compiled *jsonschema.Schema }

// Compile reads a schema in JSON, draft 2020-12 unless it names another by $schema.
// Formats are asserted.
func Compile(document []byte) (*Schema, error) {
	if len(document) > MaxSchema {
		return nil, fmt.Errorf("schema has %d bytes, more than %d", len(document), MaxSchema)
	}
	doc, err := decode(document)
	if err != nil {
		return nil, fmt.Errorf("schema %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
	c.AssertFormat()
	if err := c.AddResource(root, doc); err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	compiled, err := c.Compile(root)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema: %w", explain(err))
	}
	return &Schema{compiled}, nil
}

// nothing is the loader: whatever is asked for is refused.
type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %q leaves the schema: copy what it refers to into $defs", url)
}

// explain turns what the compiler says about a schema that is not one into places
// within it.
func explain(err error) error {
	var bad *jsonschema.SchemaValidationError
	var violation *jsonschema.ValidationError
	if errors.As(err, &bad) && errors.As(bad.Err, &violation) {
		return &Violation{Places: places(violation)}
	}
	return err
}

// Validate reports every place where the document breaks the schema, as a
// *[Violation]. A document that is too big, too deep or not JSON is an error too.
func (s *Schema) Validate(document []byte) error {
	if len(document) > MaxDocument {
		return fmt.Errorf("has %d bytes, more than %d", len(document), MaxDocument)
	}
	doc, err := decode(document)
	if err != nil {
		return err
	}
	err = s.compiled.Validate(doc)
	var violation *jsonschema.ValidationError
	if errors.As(err, &violation) {
		return &Violation{Places: places(violation)}
	}
	return err
}

// decode reads one JSON value with its numbers as written.
func decode(document []byte) (any, error) {
	if err := checkDepth(document); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	return doc, nil
}

// checkDepth refuses deep nesting without recursion, and what is not JSON.
func checkDepth(document []byte) error {
	if !json.Valid(document) {
		return errors.New("is not JSON: check quotes, commas and brackets")
	}
	depth, quoted, escaped := 0, false, false
	for _, c := range document {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped = c == '\\'
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{', c == '[':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("nests deeper than %d", MaxDepth)
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return nil
}
