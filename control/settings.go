package control

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"

	"tollgate/dedupe"
)

// The verbs about the dispatcher itself and about who may ask it.
const (
	VerbSettings    = "settings"     // SettingsQuery → Settings
	VerbConsoleLink = "console.link" // LinkQuery     → ConsoleLink
)

// SettingSources are where a setting may come from.
var SettingSources = []string{"default", "file", "environment", "secret-file"}

// SettingsQuery narrows the settings.
type SettingsQuery struct {
	Under  string `json:"under,omitempty"`  // the path, and everything below it
	Source string `json:"source,omitempty"` // one of SettingSources
}

// Settings is the configuration as it holds, secrets masked, with where each value
// comes from.
type Settings struct {
	File   string    `json:"file"`
	Values []Setting `json:"items"`
	Clocks []Clock   `json:"clocks"` // how long things are kept
	Caps   []Cap     `json:"caps"`   // and how many of them
	Users  []string  `json:"users"`  // who may sign in to the console, as name (role)

	Redact map[string][]string `json:"redact,omitempty"` // JSON pointers into arguments, by tool
}

// Setting is one value of the configuration.
type Setting struct {
	Path   string `json:"path"` // such as ledger.retention
	Value  string `json:"value"`
	Source string `json:"source"` // one of SettingSources
	Where  string `json:"where,omitempty"`
}

// Clock is how long something is kept, and from when on.
type Clock struct {
	What string        `json:"what"`
	For  time.Duration `json:"for"` // 0: until somebody decides
	From string        `json:"from"`
	Path string        `json:"path,omitempty"` // of the setting that says so
}

// Cap is the most there may be of something; -1: as much as the server has room for.
type Cap struct {
	What string `json:"what"`
	Most int64  `json:"most"`
	Unit string `json:"unit"`
	Path string `json:"path,omitempty"`
}

// LinkQuery asks for a one-time link to the console.
type LinkQuery struct {
	Role Role   `json:"role,omitempty"` // "": admin
	Why  string `json:"why,omitempty"`
}

// ConsoleLink signs one browser in, once.
type ConsoleLink struct {
	URL     string    `json:"url"`
	Role    Role      `json:"role"`
	Expires time.Time `json:"expires"`
}

// LinkFor is how long a link to the console may be used.
const LinkFor = 15 * time.Minute

// accessVerbs is these verbs and what answers them.
func (s *Server) accessVerbs() map[string]func(micro.Request) {
	return map[string]func(micro.Request){
		VerbSettings:    verb(s, s.settings),
		VerbConsoleLink: verb(s, s.consoleLink),
	}
}

func (s *Server) settings(_ context.Context, q SettingsQuery, _ string) (Settings, error) {
	if q.Source != "" && !slices.Contains(SettingSources, q.Source) {
		return Settings{}, bad("%q is not where a setting comes from; that is one of %v", q.Source, SettingSources)
	}
	all := s.cfg.Settings()
	values := []Setting{}
	for _, v := range all.Values {
		if (q.Under == "" || v.Path == q.Under || strings.HasPrefix(v.Path, q.Under+".")) && (q.Source == "" || v.Source == q.Source) {
			values = append(values, v)
		}
	}
	all.Values = values
	return all, nil
}

// consoleLink is recorded before it is answered: whoever has the link is in.
func (s *Server) consoleLink(ctx context.Context, q LinkQuery, by string) (ConsoleLink, error) {
	role, now := cmp.Or(q.Role, Admin), time.Now()
	if !slices.Contains(Roles, role) {
		return ConsoleLink{}, bad("%q is not a role; the roles are %v", role, Roles)
	}
	url, err := s.cfg.Link(by, role)
	if err != nil {
		return ConsoleLink{}, err
	}
	a := dedupe.Audit{At: now, Action: actionOf(VerbConsoleLink), Target: "console", By: by, Why: q.Why, Allowed: true, Detail: "role=" + string(role)}
	receipt, err := s.cfg.Ledger.Update(ctx, dedupe.Ref{}, func(dedupe.View) dedupe.Change { return dedupe.Change{Audit: []dedupe.Audit{a}} })
	if err != nil {
		return ConsoleLink{}, err
	}
	s.cfg.Publish(receipt.Audit)
	return ConsoleLink{URL: url, Role: role, Expires: now.Add(LinkFor)}, nil
}

// NoConsole is returned by Config.Link where nobody can reach a console.
type NoConsole struct{ Why, Try string }

func (n *NoConsole) Error() string { return n.Why }
