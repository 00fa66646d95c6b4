package schemas

import (
	"embed"
	"slices"
)

//go:embed v1/*.json
var documents embed.FS

// Names lists the JSON Schemas of version 1, sorted, without their ending.
func Names() []string { return slices.Clone(documentNames) }

var documentNames = []string{"dead-letter", "outcome", "request", "tool-error"}

// Document returns the JSON Schema with that name, draft 2020-12, or nil. A
// reference between them is by $id.
func Document(name string) []byte {
	b, err := documents.ReadFile("v1/" + name + ".json")
	if err != nil {
		return nil
	}
	return b
}
