// Package console is the operators' web pages: what is going on, why a call ended as
// it did, and the decisions about dead letters. It stands on the same control service
// and the same filters as the command line and decides nothing itself.
//
// Every page is rendered here and works without JavaScript; every list has its whole
// state in its address. What agents and tools wrote is shown as text and never as
// anything else.
package console

import (
	"embed"
	"io/fs"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tollgate/schemas"
)

//go:embed templates static
var files embed.FS

// Config is what the console stands on. All fields are required but the last two.
type Config struct {
	NATS     *nats.Conn // the dispatcher's own connection
	Subjects schemas.Subjects
	Version  string
	Log      zerolog.Logger
	Users    []User           // who may sign in with a token of their own; none: by one-time links only
	Now      func() time.Time // nil: time.Now
}

// Console serves the pages. It is made by [New] only.
type Console struct {
	cfg      Config
	pages    pages
	sessions *sessions
}

// New reads the templates, all of which have to be right.
func New(cfg Config) (*Console, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Console{cfg: cfg, sessions: newSessions(cfg.Now)}
	var err error
	c.pages, err = c.readPages()
	return c, err
}

// Link makes an address, below the listener's own, that signs one browser in once and
// soon: for whoever can read this process's terminal, or ask its control service.
func (c *Console) Link(u User) string { return "/signin?link=" + c.sessions.link(u) }

// Handler is everything the console serves.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	static, _ := fs.Sub(files, "static") // it is embedded: the name is right or nothing builds
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(static)))
	mux.HandleFunc("GET /signin", c.signInPage)
	mux.HandleFunc("POST /signin", c.signIn)
	mux.HandleFunc("POST /signout", c.signOut)
	for _, part := range routes {
		for pattern, h := range part {
			mux.Handle(pattern, c.signedIn(h))
		}
	}
	return guard(mux)
}

// handler answers one request of somebody who is signed in. What it returns is shown
// on a page of its own.
type handler func(v *visit) error

// routes are every page and every form behind the sign-in, by part.
var routes = []map[string]handler{
	{"GET /": notFound}, // whatever no other part serves
	auditRoutes,
	runsRoutes,
	toolsRoutes,
	overviewRoutes,
	deadRoutes, deadListRoutes, deadActRoutes, letterRoutes, replayNewRoutes, replaysRoutes,
}
