package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	reference = regexp.MustCompile(`\$\$\{|\$\{([^}]*)\}?`)
	variable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// text returns a scalar's text with ${NAME} replaced from the environment; $${ is
// a literal ${. What was replaced is remembered as secret. A problem names the
// variable, never its value.
func (d *decoder) text(n *node, path, want string) (string, bool) {
	switch {
	case n.kind == number || n.kind == boolean:
		if strings.HasPrefix(want, "text") {
			want += " (put it in quotes)"
			d.wrong(n, path, want)
			return "", false
		}
	case n.kind != text:
		d.wrong(n, path, want)
		return "", false
	}
	if !strings.Contains(n.value, "${") {
		return n.value, true
	}
	ok := true
	out := reference.ReplaceAllStringFunc(n.value, func(ref string) string {
		if ref == "$${" {
			return "${"
		}
		name := strings.TrimSuffix(strings.TrimPrefix(ref, "${"), "}")
		if !strings.HasSuffix(ref, "}") || !variable.MatchString(name) {
			d.problem(n, path, "${ is not followed by a variable's name and }: write $${ for a literal ${")
			ok = false
			return ""
		}
		value, found := d.env(name)
		if !found {
			d.problem(n, path, "the environment variable %s is not set", name)
			ok = false
		}
		d.secret(value)
		return value
	})
	d.raw[path] = n.value
	return out, ok
}

// secret remembers a text that must not be shown. What is very short would blot
// out half of every message and hides nothing.
func (d *decoder) secret(s string) {
	if len(s) >= 4 {
		d.secrets = append(d.secrets, s)
	}
}

// set parses a text and reports what is wrong with it, in the words of the file:
// a value that came from the environment is not shown.
func set[T any](d *decoder, n *node, path, value string, parse func(string) (T, error)) T {
	v, err := parse(value)
	if err != nil {
		d.problem(n, path, "%s", d.inWords(path, value, err))
	}
	return v
}

// inWords is an error's text without a value that came from the environment.
func (d *decoder) inWords(path, value string, err error) string {
	raw, replaced := d.raw[path]
	if !replaced || value == "" {
		return err.Error()
	}
	return fmt.Sprintf("%s is not usable here: want a value as it would stand in the file, with a unit where one is needed", raw)
}

func (d *decoder) duration(n *node, path, value string, target *Duration, f field) {
	before := len(d.problems)
	*target = set(d, n, path, value, parseDuration)
	if len(d.problems) == before && *target == 0 && f.min != "0" {
		d.problem(n, path, "%s: want more than 0", n.value)
	}
}

// Secret is a text that is never shown. Reveal is for the one place that sends it.
type Secret struct {
	value string
	file  string // where it was read from
}

const mask = "********"

// Reveal returns the text.
func (s Secret) Reveal() string { return s.value }

// Set reports whether there is one.
func (s Secret) Set() bool { return s.value != "" }

// String hides the text, whatever the verb.
func (s Secret) String() string { return mask }

// GoString hides the text from %#v.
func (s Secret) GoString() string { return mask }

// MarshalText hides the text from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }

// decode reads a text, or {file: path} of a file that holds it.
func (s *Secret) decode(d *decoder, n *node, path string) {
	switch {
	case n.kind == mapping && len(n.entries) == 1 && n.entries[0].key == "file":
		name, ok := d.text(n.entries[0].value, path+".file", "text: the path of a file")
		if !ok {
			return
		}
		data, err := readBounded(d.path(name), 64<<10)
		if err != nil {
			d.problem(n, path, "reading the secret: %v", err)
			return
		}
		s.value, s.file = strings.TrimRight(string(data), "\r\n"), name
	case n.kind == mapping:
		d.problem(n, path, "want text, or {file: path}")
		return
	default:
		value, ok := d.text(n, path, "text, or {file: path}")
		if !ok {
			return
		}
		s.value = value
	}
	if strings.ContainsAny(s.value, "\r\n\x00") {
		d.problem(n, path, "holds a line break: want one line")
	}
	d.secret(s.value)
	if _, bare, ok := strings.Cut(s.value, " "); ok {
		d.secret(bare) // the token without "Bearer"
	}
}

// path resolves a relative path against the configuration file's folder.
func (s source) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.dir, name)
}

// readBounded reads a regular file of at most limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is not a file of at most %s", name, Size(limit))
	}
	return os.ReadFile(name)
}
