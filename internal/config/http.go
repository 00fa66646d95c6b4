package config

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"tollgate/internal/web"
)

// Listener sets the listener for operators.
type Listener struct {
	Listen    string          `key:"listen" default:"127.0.0.1:9464" doc:"Beyond the loopback address only with expose."`
	Expose    bool            `key:"expose" default:"false" doc:"Let other machines reach it. /metrics, /livez and /readyz ask nobody who they are: a firewall or proxy has to decide who gets there. The console asks, and without users it is off."`
	PublicURL string          `key:"public_url" doc:"Where browsers reach the console, such as https://tollgate.example.com behind a proxy. With https its cookie is never sent unencrypted."`
	Users     map[string]User `key:"users" doc:"Who may sign in to the console with a token. Left out: by the one-time links of tollgate console only, and on the loopback address only."`
}

// User is somebody who may sign in to the console.
type User struct {
	Role   string `key:"role" need:"say what this user may do" one:"viewer,operator,admin" doc:"viewer looks; operator also decides about letters, calls and tools; admin also raises budgets, edits, and removes for good."`
	Token  Secret `key:"token" doc:"What the user signs in with, 16 characters or more. Better is its token_sha256."`
	SHA256 Digest `key:"token_sha256" doc:"The token's SHA-256 in hexadecimal: printf %s \"$TOKEN\" | sha256sum."`
}

// Digest is the SHA-256 of the user's token, in hexadecimal.
func (u User) Digest() string {
	if u.SHA256 != "" {
		return string(u.SHA256)
	}
	sum := sha256.Sum256([]byte(u.Token.Reveal()))
	return hex.EncodeToString(sum[:])
}

// Digest is a SHA-256 in hexadecimal.
type Digest string

var hex64 = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func (s *Digest) decode(d *decoder, n *node, path string) {
	if value, ok := d.text(n, path, "text (put it in quotes): 64 hexadecimal digits"); ok {
		if !hex64.MatchString(value) {
			d.problem(n, path, "is no SHA-256: want 64 hexadecimal digits, as printf %%s \"$TOKEN\" | sha256sum prints them")
		}
		*s = Digest(strings.ToLower(value))
	}
}

// leastToken is how long a token has to be that nobody is to guess.
const leastToken = 16

func (k *checker) http() {
	h := k.HTTP
	if h == nil {
		return
	}
	if err := web.Check(h.Listen, h.Expose); err != nil {
		k.add("http.listen", "%v", err)
	}
	k.publicURL(h)
	owners := map[string]string{} // of tokens, by digest
	for _, name := range slices.Sorted(maps.Keys(h.Users)) {
		path := "http.users." + name
		if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
			k.about(path, "is not a user's name: want 1 to 64 printable characters")
		}
		u := h.Users[name]
		switch {
		case u.Token.Set() == (u.SHA256 != ""):
			k.about(path, "want either token or token_sha256")
		case u.Token.Set() && len(u.Token.Reveal()) < leastToken:
			k.add(path+".token", "is too short: want at least %d characters that nobody can guess, such as openssl rand -hex 24 prints", leastToken)
		}
		if other, twice := owners[u.Digest()]; twice && (u.Token.Set() || u.SHA256 != "") {
			k.about(path, "has the same token as %s: the audit could not tell them apart", other)
		}
		owners[u.Digest()] = name
	}
	encrypted := strings.HasPrefix(h.PublicURL, "https://")
	if len(h.Users) > 0 && !encrypted && !web.Local(h.Listen) {
		k.warn("http.users", "tokens and pages travel unencrypted: put a proxy with TLS in front and name it in public_url")
	}
}

func (k *checker) publicURL(h *Listener) {
	if h.PublicURL == "" {
		return
	}
	u, err := url.Parse(h.PublicURL)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		k.add("http.public_url", "is not where a console can be: want https://host or https://host:port, without a path")
	case len(h.Users) == 0 && !web.Local(net.JoinHostPort(u.Hostname(), "0")):
		k.add("http.public_url", "other machines reach the console there, and no user may sign in: name them in http.users")
	}
}
