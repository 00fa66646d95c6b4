package console

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// signInPage asks for a token, or takes a one-time link.
func (c *Console) signInPage(w http.ResponseWriter, r *http.Request) {
	token := r.URL.Query().Get("link")
	if token == "" {
		c.askToSignIn(w, r, http.StatusOK, "")
		return
	}
	t, ok := c.try(w, r)
	if !ok {
		return
	}
	u, ok := c.sessions.redeem(token)
	if !ok {
		c.askToSignIn(w, r, http.StatusForbidden, "That link was used already or is too old: make another.")
		return
	}
	t.takeBack()
	c.enter(w, r, u, "/")
}

func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	t, ok := c.try(w, r)
	if !ok {
		return
	}
	u, ok := who(c.cfg.Users, r.PostFormValue("token"))
	if !ok {
		c.cfg.Log.Warn().Str("from", r.RemoteAddr).Msg("console: sign-in refused")
		c.askToSignIn(w, r, http.StatusForbidden, "No user has that token.")
		return
	}
	t.takeBack()
	c.enter(w, r, u, local(r.PostFormValue("to")))
}

// enter begins a session and goes on to a page. A session that the browser had ends: a
// cookie that was there before is never taken over.
func (c *Console) enter(w http.ResponseWriter, r *http.Request, u User, to string) {
	if old, _, ok := c.sessions.find(r); ok {
		c.sessions.end(old)
	}
	c.cfg.Log.Info().Str("user", u.Name).Str("role", string(u.Role)).Str("from", r.RemoteAddr).Msg("console: signed in")
	c.setCookie(w, c.sessions.begin(u), int(SessionFor.Seconds()))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	if id, _, ok := c.sessions.find(r); ok {
		c.sessions.end(id)
	}
	c.setCookie(w, "", -1)
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}

func (c *Console) setCookie(w http.ResponseWriter, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: c.sessions.cookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: c.encrypted(), SameSite: http.SameSiteLaxMode})
}

// encrypted reports whether browsers come by https only.
func (c *Console) encrypted() bool { return strings.HasPrefix(c.cfg.PublicURL, "https://") }

// Failed sign-ins of one address: so many at once, and then one in a while.
const (
	triesAtOnce = 10
	tryEvery    = 3 * time.Second
	mostTriers  = 1000
)

// tries are the addresses that have tried to sign in of late.
type tries struct {
	mu   sync.Mutex
	from map[string]*rate.Limiter
}

func newTries() tries { return tries{from: map[string]*rate.Limiter{}} }

// try is one attempt, which counts against its address unless it is taken back.
type try struct {
	at      time.Time
	counted *rate.Reservation
}

// takeBack lets an attempt that succeeded count for nothing. Those that failed still
// count: whoever has one user's token must not guess another's all the faster.
func (t try) takeBack() { t.counted.CancelAt(t.at) }

// try counts an attempt, or says on the page that there were too many.
func (c *Console) try(w http.ResponseWriter, r *http.Request) (try, bool) {
	from := address(r)
	t, ok := c.tries.take(from, c.cfg.Now())
	if !ok {
		c.cfg.Log.Warn().Str("from", from).Msg("console: too many sign-ins")
		w.Header().Set("Retry-After", fmt.Sprint(int(tryEvery.Seconds())))
		c.askToSignIn(w, r, http.StatusTooManyRequests, fmt.Sprintf("Too many failed sign-ins from %s: this one was not looked at. Try again in %s.", from, brief(tryEvery)))
	}
	return t, ok
}

// take counts an attempt, unless there were too many. One that is refused reserves
// nothing: of reservations that overlap only the last can be taken back, and a flood would
// keep its address out for long after it.
func (t *tries) take(from string, at time.Time) (try, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.of(from)
	if l.TokensAt(at) < 1 {
		return try{}, false
	}
	return try{at: at, counted: l.ReserveN(at, 1)}, true
}

// of is called with mu held.
func (t *tries) of(from string) *rate.Limiter {
	l := t.from[from]
	if l == nil {
		for other := range t.from { // of too many, any is forgotten
			if len(t.from) < mostTriers {
				break
			}
			delete(t.from, other)
		}
		l = rate.NewLimiter(rate.Every(tryEvery), triesAtOnce)
		t.from[from] = l
	}
	return l
}

func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// local is an address of this console, or its first page.
func local(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}
