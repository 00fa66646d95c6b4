package schemas

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

// The names are what the contract says in patterns, whatever is thrown at them.
func TestNamesAreThePatternsOfTheContract(t *testing.T) {
	prefix := func(s string) bool { _, err := NewSubjects(s); return err == nil }
	for _, tc := range []struct {
		name, pattern, near string
		valid               func(string) bool
	}{
		{"tenant", `^[a-z0-9_-]{1,32}$`, `[a-zA-Z0-9_.\x00é-]{0,35}`, ValidTenant},
		{"tool", `^(?:[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7})$`, `([A-Za-z0-9_-]{0,66}[.:]?){0,9}`, func(s string) bool { return len(s) > 160 || ValidTool(s) }},
		{"run", `^[A-Za-z0-9_:-]{1,128}(/[A-Za-z0-9_:-]{1,128}){0,7}$`, `([A-Za-z0-9_:é-]{0,20}[/.]?){0,9}`, ValidRun},
		{"prefix", `^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,3}$`, `[A-Za-z0-9_-]([A-Za-z0-9_-]{0,66}[./]?){0,5}`, prefix},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pattern := regexp.MustCompile(tc.pattern)
			rapid.Check(t, func(t *rapid.T) {
				s := rapid.OneOf(rapid.StringMatching(tc.pattern), rapid.StringMatching(tc.near), rapid.String()).Draw(t, "name")
				if tc.name == "prefix" && s == "" || tc.name == "tool" && len(s) > 160 {
					return
				}
				if tc.valid(s) != pattern.MatchString(s) {
					t.Errorf("%q: valid is %t, the pattern says %t", s, tc.valid(s), !tc.valid(s))
				}
			})
		})
	}
}
