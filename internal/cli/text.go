package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// safe makes text of others fit for a terminal: no escape sequences, no control
// characters, and nothing that turns the direction of what follows.
func safe(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		if n := escapeLength(text[i:]); n > 0 {
			i += n
			continue
		}
		r, size := rune(text[i]), 1
		if r >= 0x80 {
			for _, r = range text[i:] {
				break
			}
			size = max(1, len(string(r)))
			if r == unicode.ReplacementChar && text[i] != 0xEF {
				size = 1 // a broken byte, not the character itself
			}
		}
		i += size
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escapeLength is the length of the ANSI sequence text begins with, or 0.
func escapeLength(text string) int {
	if len(text) < 2 || text[0] != 0x1b {
		return 0
	}
	switch text[1] {
	case '[': // parameters, then one final byte
		for i := 2; i < len(text); i++ {
			if text[i] >= 0x40 && text[i] <= 0x7e {
				return i + 1
			}
		}
	case ']', 'P', '_', '^', 'X': // a string, up to BEL or ST
		for i := 2; i < len(text); i++ {
			if text[i] == 0x07 {
				return i + 1
			}
			if text[i] == 0x1b && i+1 < len(text) && text[i+1] == '\\' {
				return i + 2
			}
		}
	default:
		return 2
	}
	return len(text)
}

// oneLine is safe text for a cell of a table.
func oneLine(text string) string { return strings.Join(strings.Fields(safe(text)), " ") }

// clip shortens a cell that would push everything else away.
func clip(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func cmpOr(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// at is an instant for people, with its offset.
func (s *shell) at(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case s.utc:
		return t.UTC().Format("2006-01-02 15:04:05Z")
	}
	return t.Local().Format("2006-01-02 15:04:05 -07:00")
}

// ago is how long an instant is past, or how far ahead.
func (s *shell) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := s.now().Sub(t)
	if d < 0 {
		return "in " + brief(-d)
	}
	return brief(d) + " ago"
}

// brief is a duration in one or two units.
func brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

// short abbreviates an ID on a terminal, the way git does; scripts get it whole.
func (s *shell) short(id string) string {
	call, generation, letter := strings.Cut(id, ".")
	if !s.outTTY || len(call) <= shortID {
		return id
	}
	if letter {
		return call[:shortID] + "." + generation
	}
	return call[:shortID]
}

const shortID = 10
