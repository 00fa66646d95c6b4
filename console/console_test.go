package console

import (
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// A template that does not parse must not be found by an operator.
func TestEveryTemplateParses(t *testing.T) {
	c, err := New(Config{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"signin", "trouble", "audit"} {
		if c.pages[name] == nil {
			t.Errorf("no template %q", name)
		}
	}
}

// A link is for one browser, and not for long.
func TestALinkSignsInOnce(t *testing.T) {
	now := time.Now()
	s := newSessions(func() time.Time { return now })
	link := s.link(User{Name: "ann"})
	if u, ok := s.redeem(link); !ok || u.Name != "ann" {
		t.Fatalf("%v %v", u, ok)
	}
	if _, ok := s.redeem(link); ok {
		t.Error("a link was taken twice")
	}
	link = s.link(User{Name: "ann"})
	now = now.Add(linkFor)
	if _, ok := s.redeem(link); ok {
		t.Error("an old link was taken")
	}
}

// Text of others is shown, and cannot turn or hide what stands around it.
func TestTextOfOthersHasNoPower(t *testing.T) {
	for in, want := range map[string]string{
		"plain":             "plain",
		"a\x1b[31mred":      "a⟨U+001B⟩[31mred",
		"abc\u202Etxt.exe":  "abc⟨U+202E⟩txt.exe",
		"zero\u200Bwidth":   "zero⟨U+200B⟩width",
		"bad\xffbyte":       "bad\uFFFDbyte",
		"two\nlines\tand\r": "two\nlines\tand⟨U+000D⟩",
	} {
		if got := visible(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestOnlyAddressesOfTheConsoleAreGoneTo(t *testing.T) {
	for to, want := range map[string]string{"/dead?group=g": "/dead?group=g", "": "/", "//evil.example": "/", "https://evil.example": "/", "/\\evil.example": "/", "/a\r\nSet-Cookie: x": "/"} {
		if got := local(to); got != want {
			t.Errorf("%q: %q, want %q", to, got, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Error("the policy allows what is inline")
	}
}

// Somebody who signs in again and again ends their own sessions, and nobody else's.
func TestManySignInsEndOnlyTheirOwnSessions(t *testing.T) {
	s := newSessions(time.Now)
	ada := s.begin(User{Name: "ada"})
	for range 3 * mostOfOne {
		s.begin(User{Name: "vic"})
	}
	if s.open[ada] == nil || len(s.open) != mostOfOne+1 {
		t.Errorf("%d sessions, ada's among them: %v", len(s.open), s.open[ada] != nil)
	}
}
