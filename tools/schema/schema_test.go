package schema_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tollgate/dispatcher"
	"tollgate/tools/schema"
)

var _ dispatcher.Validator = (*schema.Schema)(nil)

const charge = `{
	"type": "object",
	"required": ["amount", "currency"],
	"additionalProperties": false,
	"properties": {
		"amount":   {"type": "integer", "minimum": 1},
		"currency": {"enum": ["EUR", "USD"]},
		"email":    {"type": "string", "format": "email"},
		"ref":      {"type": "string", "pattern": "^inv-[0-9]+$"},
		"a/b~c":    {"type": "string"}
	}
}`

func ExampleCompile() {
	s, err := schema.Compile([]byte(charge))
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Validate([]byte(`{"amount": 5, "currency": "EUR"}`)))
	fmt.Println(s.Validate([]byte(`{"amount": "5"}`)))
	// Output:
	// <nil>
	// (root): missing property 'currency'; /amount: got string, want integer
}

func TestEveryFailingPlaceIsNamed(t *testing.T) {
	s := compile(t, charge)
	err := s.Validate([]byte(`{"amount": 0, "currency": "GBP", "email": "nobody", "ref": "x", "a/b~c": 1, "extra": true}`))
	var v *schema.Violation
	if !errors.As(err, &v) {
		t.Fatalf("got %v, want a violation", err)
	}
	var got []string
	for _, p := range v.Places {
		got = append(got, p.Pointer)
	}
	if d := cmp.Diff([]string{"", "/amount", "/a~1b~0c", "/currency", "/email", "/ref"}, got); d != "" {
		t.Errorf("places (-want +got):\n%s\n%v", d, err)
	}
}

// B93: what a document holds may be secret; the text of a violation reaches logs.
func TestAViolationDoesNotRepeatValues(t *testing.T) {
	s := compile(t, charge)
	err := s.Validate([]byte(`{"amount": "s3cr3t-77", "currency": "s3cr3t-77", "email": "s3cr3t-77", "ref": "s3cr3t-77"}`))
	if err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v", err)
	}
}

func TestNumbersAreNotRounded(t *testing.T) {
	s := compile(t, `{"properties": {"id": {"const": 9007199254740993}}}`)
	if err := s.Validate([]byte(`{"id": 9007199254740993}`)); err != nil {
		t.Error(err)
	}
	if err := s.Validate([]byte(`{"id": 9007199254740992}`)); err == nil {
		t.Error("a neighbouring integer passed")
	}
}

// The library's default loader opens file:// references; ours opens nothing.
func TestReferencesOutsideAreRefused(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(file, []byte(`{"type": "string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"file://" + file, server.URL, "other.json", "file:///etc/hostname"} {
		_, err := schema.Compile(fmt.Appendf(nil, `{"properties": {"a": {"$ref": %q}}}`, ref))
		if err == nil || !strings.Contains(err.Error(), "leaves the schema") {
			t.Errorf("%s: got %v, want a refusal", ref, err)
		}
		if _, err := schema.Compile(fmt.Appendf(nil, `{"$schema": %q}`, ref)); err == nil {
			t.Errorf("$schema %s was accepted", ref)
		}
	}
	if asked {
		t.Error("a schema made a request")
	}
}

func TestReferencesInsideWork(t *testing.T) {
	s := compile(t, `{"$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "integer"}}}}, "$ref": "#/$defs/node"}`)
	if err := s.Validate([]byte(`{"next": {"next": {"v": 1}}}`)); err != nil {
		t.Error(err)
	}
	err := s.Validate([]byte(`{"next": {"next": {"v": "x"}}}`))
	if err == nil || !strings.HasPrefix(err.Error(), "/next/next/v: ") {
		t.Errorf("got %v", err)
	}
}

func TestDocumentsAreBounded(t *testing.T) {
	s := compile(t, `true`)
	nest := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if err := s.Validate(nest(schema.MaxDepth)); err != nil {
		t.Errorf("depth %d: %v", schema.MaxDepth, err)
	}
	for name, doc := range map[string][]byte{
		"deep":  nest(schema.MaxDepth + 1),
		"big":   []byte(`"` + strings.Repeat("x", schema.MaxDocument) + `"`),
		"empty": nil,
		"two":   []byte(`{} {}`),
		"cut":   []byte(`{"a": [`),
	} {
		if s.Validate(doc) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := s.Validate([]byte(`"` + strings.Repeat(`[\"{`, 100) + `"`)); err != nil {
		t.Errorf("brackets in a string count as depth: %v", err)
	}
	if _, err := schema.Compile([]byte(`{"a": "` + strings.Repeat("x", schema.MaxSchema) + `"}`)); err == nil {
		t.Error("a huge schema was accepted")
	}
}

func TestABadSchemaSaysWhere(t *testing.T) {
	for doc, want := range map[string]string{
		`{"properties": {"a": {"type": "strin"}}}`: "/properties/a/type",
		`{"$ref": "#/$defs/nothere"}`:              "$defs/nothere",
		`{"pattern": "("}`:                         "/pattern",
		`{`:                                        "not JSON",
	} {
		if _, err := schema.Compile([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", doc, err, want)
		}
	}
}

func TestLongViolationsAreCutInTheText(t *testing.T) {
	s := compile(t, `{"items": {"type": "string"}}`)
	err := s.Validate([]byte("[" + strings.Repeat("1,", 99) + "1]"))
	var v *schema.Violation
	if !errors.As(err, &v) || len(v.Places) != 100 || !strings.HasSuffix(err.Error(), "; and 80 more") {
		t.Errorf("got %v", err)
	}
}

func compile(t *testing.T, doc string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func FuzzValidate(f *testing.F) {
	s, err := schema.Compile([]byte(charge))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"amount": 1e999, "currency": "EUR"}`))
	f.Add([]byte(`{"a/b~c": "\ud800"}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if err := s.Validate(doc); err != nil && err.Error() == "" {
			t.Error("an error without text")
		}
	})
}
