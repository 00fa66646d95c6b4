package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"time"
	"unicode"
)

// funcs are what templates may call.
func (c *Console) funcs() template.FuncMap {
	return template.FuncMap{
		"text": visible, "pretty": pretty, "short": short, "brief": brief, "iso": iso, "join": strings.Join, "clip": clip,
		"letters": func(n int) string {
			if n == 1 {
				return "1 dead letter"
			}
			return fmt.Sprintf("%d dead letters", n)
		},
		"ago":   func(t time.Time) string { return ago(c.cfg.Now(), t) },
		"when":  func(t time.Time) stamp { return stamp{t, ago(c.cfg.Now(), t)} },
		"list":  func(items ...any) []any { return items },
		"bytes": size, "heap": func(n uint64) string { return size(int64(n)) }, "seen": seen, "percent": percent, "micro": micro, "latency": latency,
		"field": func(name, label string, p *page) input { return input{Name: name, Label: label, Value: p.Param(name)} },
	}
}

// stamp is an instant for the part that shows one: how long ago, and exactly.
type stamp struct {
	At  time.Time
	Ago string
}

// input is a field of a filter, filled with what the address says.
type input struct{ Name, Label, Value string }

// visible makes what somebody else wrote safe to read: what has no shape, or would turn
// the direction of the text around it, is shown as its code. The template escapes it.
func visible(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Cf, r):
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// pretty indents JSON, its numbers as written; other bytes stay as they are.
func pretty(body string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(body), "", "  ") != nil {
		return visible(body)
	}
	return visible(out.String())
}

// clip shortens what would push everything else away.
func clip(most int, text string) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// short abbreviates an ID, as the command line does.
func short(id string) string {
	call, generation, letter := strings.Cut(id, ".")
	if len(call) > 10 {
		call = call[:10]
	}
	if letter {
		return call + "." + generation
	}
	return call
}

func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// ago is how long an instant is past, or how far ahead.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	if d := now.Sub(t); d >= 0 {
		return brief(d) + " ago"
	}
	return "in " + brief(t.Sub(now))
}

// brief is a duration in one or two units.
func brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}
