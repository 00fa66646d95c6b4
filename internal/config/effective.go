package config

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Effective returns the configuration as it holds, defaults and environment
// included and secrets masked, in the form of the file. A value that names an
// environment variable is shown with the name.
func Effective(c *Config) []byte {
	p := printer{raw: c.raw}
	p.structure(reflect.ValueOf(c).Elem(), "", 0)
	return p.Bytes()
}

type printer struct {
	bytes.Buffer
	raw map[string]string
}

func (p *printer) structure(v reflect.Value, path string, depth int) {
	for _, f := range fields(v.Type()) {
		if value := v.Field(f.index); !value.IsZero() || f.preset != "" || f.need != "" || hasDefaults(value) {
			p.member(f.name, value, join(path, f.name), depth)
		}
	}
}

// hasDefaults reports whether a section has something to say although everything in it
// is nothing.
func hasDefaults(v reflect.Value) bool {
	return v.Kind() == reflect.Struct && !isInline(v) && slices.ContainsFunc(fields(v.Type()), func(f field) bool { return f.preset != "" })
}

// member prints one key and its value.
func (p *printer) member(key string, v reflect.Value, path string, depth int) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	p.WriteString(strings.Repeat("  ", depth) + plain(key) + ":")
	switch {
	case isInline(v):
		p.WriteString(" " + p.inline(v, path) + "\n")
	case v.Kind() == reflect.Struct:
		p.block(func() { p.structure(v, path, depth+1) })
	default:
		p.block(func() {
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			for _, k := range keys {
				p.member(k.String(), v.MapIndex(k), join(path, k.String()), depth+1)
			}
		})
	}
}

// block prints what is below a key, or {} when there is nothing.
func (p *printer) block(body func()) {
	start := p.Len()
	p.WriteByte('\n')
	body()
	if p.Len() == start+1 {
		p.Truncate(start)
		p.WriteString(" {}\n")
	}
}

func isInline(v reflect.Value) bool {
	switch v.Interface().(type) {
	case Secret, Sync, SchemaRef:
		return true
	case Breaker:
		return true
	}
	return v.Kind() != reflect.Struct && v.Kind() != reflect.Map
}

func (p *printer) inline(v reflect.Value, path string) string {
	switch x := v.Interface().(type) {
	case Secret:
		return p.secret(x, path)
	case SchemaRef:
		if x.File != "" {
			return plain(p.shown(path, x.File))
		}
		return string(x.Document)
	case Breaker:
		if x.Off {
			return "off"
		}
		r := x.Rules
		return fmt.Sprintf("{consecutive: %d, ratio: %v, least: %d, cooldown: %s}", r.Consecutive, r.Ratio, r.Least, r.Cooldown)
	case fmt.Stringer: // durations, sizes, sync
		return x.String()
	}
	switch v.Kind() {
	case reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = p.inline(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.String:
		return plain(hideInURL(p.shown(path, v.String())))
	default:
		return fmt.Sprint(v.Interface())
	}
}

// shown is a text as the file has it, with a literal ${ written so that it reads back.
func (p *printer) shown(path, value string) string {
	if raw, ok := p.raw[path]; ok {
		return raw
	}
	return strings.ReplaceAll(value, "${", "$${")
}

// secret shows where a secret comes from, and nothing of the secret itself.
func (p *printer) secret(s Secret, path string) string {
	if s.file != "" {
		return "{file: " + plain(p.shown(path+".file", s.file)) + "}"
	}
	raw, ok := p.raw[path]
	if !ok {
		return plain(mask)
	}
	refs := reference.FindAllString(raw, -1)
	scheme := authScheme.FindString(raw)
	if scheme+strings.Join(refs, "") == raw && !slices.Contains(refs, "$${") {
		return plain(raw)
	}
	return plain(mask)
}

var (
	authScheme = regexp.MustCompile(`^(Bearer|Basic|Token) `)
	userInfo   = regexp.MustCompile(`://[^/?#]*@`)
	queryValue = regexp.MustCompile(`([?&][^=&#]*=)[^&#]*`)
	plainText  = regexp.MustCompile(`^[A-Za-z/_][A-Za-z0-9/._-]*$`)
)

// hideInURL masks what an address may hold in secret. Other texts stay as they are.
func hideInURL(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	s = userInfo.ReplaceAllString(s, "://"+mask+"@")
	return queryValue.ReplaceAllString(s, "${1}"+mask)
}

// plain writes a text so that YAML reads it back as that text.
func plain(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(s)
	}
	if plainText.MatchString(s) {
		return s
	}
	var b bytes.Buffer
	quote(&b, s) // a JSON text is a YAML text
	return b.String()
}

// Secrets returns every text that must not appear anywhere: resolved secrets and
// whatever came from the environment.
func (s source) Secrets() []string { return slices.Clone(s.secrets) }

// Scrub masks every secret in a text that came from elsewhere, such as an error.
func (s source) Scrub(text string) string {
	// The longest first: a secret may contain another.
	ordered := slices.SortedFunc(slices.Values(s.secrets), func(a, b string) int { return len(b) - len(a) })
	for _, secret := range ordered {
		text = strings.ReplaceAll(text, secret, mask)
	}
	return text
}
