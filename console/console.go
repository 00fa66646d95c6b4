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

// Config is what the console stands on. All fields are required but the last five.
type Config struct {
	NATS      *nats.Conn // the dispatcher's own connection
	Subjects  schemas.Subjects
	Version   string
	Log       zerolog.Logger
	Users     []User           // who may sign in with a token of their own; none: by one-time links only
	PublicURL string           // where browsers reach it; "": where it listens
	Off       string           // why nobody may use it; "": it is on
	Now       func() time.Time // nil: time.Now
	ActFor    time.Duration    // what one request may take that decides about many letters; 0: 15 s
}

// Console serves the pages. It is made by [New] only.
type Console struct {
	cfg      Config
	pages    pages
	sessions *sessions
	tries    tries
	mux      *http.ServeMux // of all pages
}

// New reads the templates, all of which have to be right.
func New(cfg Config) (*Console, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.ActFor == 0 {
		cfg.ActFor = 15 * time.Second
	}
	c := &Console{cfg: cfg, sessions: newSessions(cfg.Now), tries: newTries()}
	if c.encrypted() {
		c.sessions.cookie = "__Host-tollgate-session" // a browser takes it only with Secure, and for this host alone
	}
	var err error
	c.pages, err = c.readPages()
	c.route()
	return c, err
}

// Link makes an address, below the listener's own, that signs one browser in once and
// soon: for whoever can read this process's terminal, or ask its control service.
func (c *Console) Link(u User) string { return "/signin?link=" + c.sessions.link(u) }

// Handler is everything the console serves.
func (c *Console) Handler() http.Handler { return c.guard(c.mux) }

func (c *Console) route() {
	mux := http.NewServeMux()
	c.mux = mux
	static, _ := fs.Sub(files, "static") // it is embedded: the name is right or nothing builds
	mux.HandleFunc("GET /static/{name}", func(w http.ResponseWriter, r *http.Request) {
		if _, err := fs.Stat(static, r.PathValue("name")); err != nil { // the file server would take our headers back
			http.Error(w, "there is no such file", http.StatusNotFound)
			return
		}
		http.ServeFileFS(w, r, static, r.PathValue("name"))
	})
	if c.cfg.Off != "" {
		mux.HandleFunc("/", c.off)
		return
	}
	mux.HandleFunc("GET /signin", c.signInPage)
	mux.HandleFunc("POST /signin", c.signIn)
	mux.HandleFunc("POST /signout", c.signOut)
	for _, part := range routes {
		for pattern, h := range part {
			mux.Handle(pattern, c.signedIn(h))
		}
	}
}

// Off says why nobody may use the console, or is "".
func (c *Console) Off() string { return c.cfg.Off }

// off says so on a page.
func (c *Console) off(w http.ResponseWriter, r *http.Request) {
	t := trouble{Status: http.StatusForbidden, What: c.cfg.Off, Try: TurnOn}
	if err := c.render(w, t.Status, "trouble", &page{Title: "The console is off", Data: t, URL: r.URL, Now: c.cfg.Now(), Version: c.cfg.Version}); err != nil {
		http.Error(w, c.cfg.Off, t.Status)
	}
}

// TurnOn is how a console that is off is switched on.
const TurnOn = "name users under http.users in the dispatcher's configuration and restart it, or let it listen on 127.0.0.1 only"

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
	deadRoutes, deadListRoutes, deadActRoutes, letterRoutes, editRoutes, replayNewRoutes, replaysRoutes,
	settingsRoutes,
	callsRoutes,
}
