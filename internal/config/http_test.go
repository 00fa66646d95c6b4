package config_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"tollgate/internal/config"
)

// Whoever may sign in is named without doubt, or the file is refused.
func TestUsersOfTheConsole(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	for _, tc := range []struct{ name, section, want string }{
		{"a token", `{users: {ann: {role: admin, token: 0123456789abcdef}}}`, ""},
		{"a digest", `{users: {ann: {role: viewer, token_sha256: ` + digest + `}}}`, ""},
		{"nobody", `{}`, ""},
		{"exposed and nobody", `{listen: "0.0.0.0:9464", expose: true}`, ""},
		{"not exposed", `{listen: "0.0.0.0:9464", users: {ann: {role: admin, token: 0123456789abcdef}}}`, "http.listen: 0.0.0.0 is reachable from other machines"},
		{"no role", `{users: {ann: {token: 0123456789abcdef}}}`, "http.users.ann.role: missing: say what this user may do"},
		{"another role", `{users: {ann: {role: root, token: 0123456789abcdef}}}`, `"root" is not one of viewer, operator, admin`},
		{"no token", `{users: {ann: {role: admin}}}`, "http.users.ann: want either token or token_sha256"},
		{"both", `{users: {ann: {role: admin, token: 0123456789abcdef, token_sha256: ` + digest + `}}}`, "want either token or token_sha256"},
		{"a short token", `{users: {ann: {role: admin, token: hunter2}}}`, "http.users.ann.token: is too short: want at least 16 characters"},
		{"no digest", `{users: {ann: {role: admin, token_sha256: abc}}}`, "http.users.ann.token_sha256: is no SHA-256"},
		{"one token for two", `{users: {ann: {role: admin, token: 0123456789abcdef}, bob: {role: viewer, token: 0123456789abcdef}}}`, "http.users.bob: has the same token as ann"},
		{"one token, once by its digest", `{users: {ann: {role: admin, token: 0123456789abcdef}, bob: {role: viewer, token_sha256: 9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f}}}`, "http.users.bob: has the same token as ann"},
		{"a name nobody can read", `{users: {"a\u202eb": {role: admin, token: 0123456789abcdef}}}`, "is not a user's name"},
		{"public", `{public_url: "https://tollgate.example.com", users: {ann: {role: admin, token: 0123456789abcdef}}}`, ""},
		{"public and nobody", `{public_url: "https://tollgate.example.com"}`, "http.public_url: other machines reach the console there, and no user may sign in"},
		{"public with a path", `{public_url: "https://example.com/tollgate", users: {ann: {role: admin, token: 0123456789abcdef}}}`, "http.public_url: is not where a console can be"},
		{"public without a scheme", `{public_url: tollgate.example.com, users: {ann: {role: admin, token: 0123456789abcdef}}}`, "http.public_url: is not where a console can be"},
	} {
		_, err := config.Parse("tollgate.yaml", []byte("http: "+tc.section+"\n"+minimal), noEnv)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		case err != nil && (strings.Contains(err.Error(), "0123456789abcdef") || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: the problem shows a token: %v", tc.name, err)
		}
	}
}

func TestATokenAndItsDigestAreOneAndTheSame(t *testing.T) {
	sum := sha256.Sum256([]byte("0123456789abcdef"))
	digest := hex.EncodeToString(sum[:])
	for _, way := range []string{"token: 0123456789abcdef", "token_sha256: " + strings.ToUpper(digest)} {
		c := parse(t, "http: {users: {ann: {role: admin, "+way+"}}}\n"+minimal, noEnv)
		if got := c.HTTP.Users["ann"].Digest(); got != digest {
			t.Errorf("%s: %s, want %s", way, got, digest)
		}
		for _, v := range config.Describe(c) {
			if strings.Contains(v.Text, digest) || strings.Contains(v.Text, "0123456789") {
				t.Errorf("%s shows %s", v.Path, v.Text)
			}
		}
	}
}

// Beyond this machine, tokens need a proxy that encrypts them on their way.
func TestTokensOnTheirWayUnencryptedAreWarnedAbout(t *testing.T) {
	users := ", users: {ann: {role: admin, token: 0123456789abcdef}}}\n" + minimal
	for section, want := range map[string]bool{
		`http: {listen: "0.0.0.0:9464", expose: true`:                                             true,
		`http: {listen: "0.0.0.0:9464", expose: true, public_url: "http://tollgate.example.com"`:  true,
		`http: {listen: "0.0.0.0:9464", expose: true, public_url: "https://tollgate.example.com"`: false,
		`http: {listen: "127.0.0.1:9464"`:                                                         false,
	} {
		warned := false
		for _, w := range parse(t, section+users, noEnv).Warnings() {
			warned = warned || strings.Contains(w.Message, "unencrypted")
		}
		if warned != want {
			t.Errorf("%s: warned %v", section, warned)
		}
	}
}
