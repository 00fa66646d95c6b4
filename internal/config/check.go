package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"tollgate/schemas"
)

// checker says what no single value shows. It tolerates what the decoder has
// already complained about: a value that is missing or wrong is zero.
type checker struct {
	*Config
	problems []Problem
}

func check(c *Config) []Problem {
	k := &checker{Config: c}
	k.nats()
	k.ledger()
	k.http()
	k.tenants()
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		k.policy(name, c.Policies[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		k.tool(name, c.Tools[name])
	}
	k.unused()
	return k.problems
}

// add reports a problem at a value, or at the closest thing around it that is there.
func (k *checker) add(path, format string, args ...any) {
	p := Problem{File: k.file, Path: path, Message: fmt.Sprintf(format, args...)}
	at := path
	for {
		if w, ok := k.where[at]; ok {
			p.File, p.Line, p.Column = w.file, w.line, w.column
			if at != path && w.keyLine > 0 {
				p.Line, p.Column = w.keyLine, w.keyColumn
			}
			break
		}
		i := strings.LastIndexAny(at, ".[")
		if i < 0 {
			break
		}
		at = at[:i]
	}
	k.problems = append(k.problems, p)
}

// about reports a problem with a whole mapping, at its key.
func (k *checker) about(path, format string, args ...any) {
	k.add(path, format, args...)
	if w, ok := k.where[path]; ok && w.keyLine > 0 {
		last := &k.problems[len(k.problems)-1]
		last.Line, last.Column = w.keyLine, w.keyColumn
	}
}

func (k *checker) warn(path, format string, args ...any) {
	k.about(path, format, args...)
	k.problems[len(k.problems)-1].Warning = true
}

func (k *checker) nats() {
	n := k.NATS
	switch {
	case n.URL == "" && n.Embedded == nil:
		k.about("nats", "says not where the server is: give it a url, or write embedded: {}")
	case n.URL != "" && n.Embedded != nil:
		k.about("nats.embedded", "there is a url too: keep one of them")
	case n.URL != "":
		k.serverURL(n.URL)
	default:
		k.embedded(n)
	}
	if n.User != "" != n.Password.Set() {
		k.about("nats", "user and password go together: one of them is missing")
	}
	ways := 0
	for _, given := range []bool{n.Creds != "", n.NKey != "", n.User != "", n.Token.Set()} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		k.about("nats", "more than one of creds, nkey, user and token: keep one")
	}
	if n.TLS != nil && (n.TLS.Cert == "") != (n.TLS.Key == "") {
		k.about("nats.tls", "cert and key go together: one of them is missing")
	}
	if _, err := schemas.NewSubjects(n.Prefix); err != nil {
		k.add("nats.prefix", "%v", err)
	}
}

// serverURL never repeats the address: it may hold a password.
func (k *checker) serverURL(list string) {
	for server := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			k.add("nats.url", "is not an address of a server: want nats://host:port, tls://, ws:// or wss://")
			return
		}
	}
}

func (k *checker) embedded(n NATS) {
	if n.Creds != "" || n.NKey != "" || n.TLS != nil {
		k.about("nats", "creds, nkey and tls are for an external server: with embedded, use user and password, or token")
	}
	host, _, err := net.SplitHostPort(n.Embedded.Listen)
	if err != nil {
		if n.Embedded.Listen != "" {
			k.add("nats.embedded.listen", "is not host:port, such as 127.0.0.1:4222")
		}
		return
	}
	ip := net.ParseIP(host)
	loopback := host == "" || host == "localhost" || ip != nil && ip.IsLoopback()
	if !loopback && n.User == "" && !n.Token.Set() {
		k.add("nats.embedded.listen", "%s is reachable from outside, and nobody has to prove who they are: set nats.user and nats.password, or listen on 127.0.0.1", host)
	}
}

// B56: a record that is forgotten while its call may still be delivered is a
// second execution.
func (k *checker) ledger() {
	for _, name := range slices.Sorted(maps.Keys(k.Policies)) {
		longest := k.Policies[name].MaxDeadline
		if k.Ledger.Retention > 0 && longest > k.Ledger.Retention {
			k.add("ledger.retention", "%s is shorter than the max_deadline %s of policy %s: an outcome would be forgotten while its call may still come again", k.Ledger.Retention, longest, name)
		}
	}
	if k.Ledger.Path == "" {
		k.add("ledger.path", "is empty: want the path of a file")
	}
}

func (k *checker) tenants() {
	for _, name := range slices.Sorted(maps.Keys(k.Tenants)) {
		path := "tenants." + name
		if !schemas.ValidTenant(name) {
			k.about(path, "is not a tenant's name: want 1 to 32 of [a-z0-9_-]")
		}
		for i, glob := range k.Tenants[name].Tools {
			if glob == "" || strings.Contains(strings.TrimSuffix(glob, "*"), "*") {
				k.add(fmt.Sprintf("%s.tools[%d]", path, i), "%q: want a tool's name, or a prefix and * at the end", glob)
			}
		}
	}
}

func (k *checker) policy(name string, p Policy) {
	path := "policies." + name
	if p.Timeout > 0 && p.MaxDeadline > 0 && p.Timeout >= p.MaxDeadline {
		k.add(path+".timeout", "%s does not fit into the max_deadline %s: no attempt could ever start", p.Timeout, p.MaxDeadline)
	}
	if p.Timeout > 0 && p.Run.Elapsed > 0 && p.Timeout >= p.Run.Elapsed {
		k.add(path+".timeout", "%s does not fit into run.elapsed %s: no attempt could ever start", p.Timeout, p.Run.Elapsed)
	}
	if p.Backoff.Cap > 0 && p.Backoff.Base > p.Backoff.Cap {
		k.add(path+".backoff.base", "%s is more than the cap %s", p.Backoff.Base, p.Backoff.Cap)
	}
	if worst := busy(p); p.Timeout > 0 && p.MaxDeadline > 0 && p.Timeout < p.MaxDeadline && worst > p.MaxDeadline {
		k.warn(path+".attempts", "%d attempts of %s take %s, more than the max_deadline %s: slow calls end before their last attempt", p.Attempts, p.Timeout, worst, p.MaxDeadline)
	}
	if p.Run.Attempts > 0 && p.Attempts > p.Run.Attempts {
		k.warn(path+".attempts", "%d is more than run.attempts %d, which ends the call first", p.Attempts, p.Run.Attempts)
	}
}

// unused warns of what no tool refers to.
func (k *checker) unused() {
	policies, dependencies := map[string]bool{}, map[string]bool{}
	for _, t := range k.Tools {
		dependencies[t.Dependency] = true
		for _, p := range slices.Concat(t.Policies.Calls, t.Policies.Jobs) {
			policies[p] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.Policies)) {
		if !policies[name] {
			k.warn("policies."+name, "no tool uses it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.Dependencies)) {
		if !dependencies[name] {
			k.warn("dependencies."+name, "no tool stands on it")
		}
	}
}
