package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// maxPlaces bounds how many places an error's text lists; Places has them all.
const maxPlaces = 20

// Place is one failing place of a document.
type Place struct {
	Pointer string // RFC 6901; "" is the whole document
	Message string
}

// Violation says where a document breaks its schema. Its text is fit for a model
// to read and never repeats the document's values: it also reaches logs and letters.
type Violation struct{ Places []Place }

func (v *Violation) Error() string {
	var b strings.Builder
	for i, p := range v.Places {
		if i == maxPlaces {
			fmt.Fprintf(&b, "; and %d more", len(v.Places)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if p.Pointer == "" {
			b.WriteString("(root)")
		}
		b.WriteString(p.Pointer + ": " + p.Message)
	}
	return b.String()
}

// places collects the leaves of the error tree: the inner nodes only say that
// something below them failed.
func places(e *jsonschema.ValidationError) []Place {
	var found []Place
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			found = append(found, Place{pointer(e.InstanceLocation), text(e.ErrorKind)})
			return
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(e)
	slices.SortStableFunc(found, func(a, b Place) int { return strings.Compare(a.Pointer+"\x00"+a.Message, b.Pointer+"\x00"+b.Message) })
	return slices.Compact(found)
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(location []string) string {
	var b strings.Builder
	for _, token := range location {
		b.WriteString("/" + escaper.Replace(token))
	}
	return b.String()
}

// text words one failure. The library's own wording of the first kinds would
// repeat the value.
func text(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Pattern:
		return fmt.Sprintf("does not match the pattern %s", k.Want)
	case *kind.Format:
		return fmt.Sprintf("is not a valid %s", k.Want)
	case *kind.PropertyNames:
		return "has a member whose name is not allowed"
	case *kind.ContentMediaType, *kind.ContentEncoding, *kind.InvalidJsonValue:
		return "is not encoded as the schema says"
	default:
		return k.LocalizedString(message.NewPrinter(language.English))
	}
}
