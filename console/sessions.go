package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"tollgate/control"
)

// User is somebody who may sign in.
type User struct {
	Name   string
	Role   control.Role
	SHA256 string // of the token, in hexadecimal; "": only by a one-time link
}

// How long things last, and how many there may be.
const (
	linkFor      = control.LinkFor
	mostSessions = 1000
	mostOfOne    = 20 // of one user
)

// SessionFor is how long somebody stays signed in.
const SessionFor = 12 * time.Hour

// session is one browser that is signed in.
type session struct {
	user  User
	until time.Time
	flash string // what the next page says, once
}

// sessions are who is signed in. They live as long as the process.
type sessions struct {
	now    func() time.Time
	cookie string // its name
	mu     sync.Mutex
	open   map[string]*session // by the cookie's value
	links  map[string]session  // that were not used yet
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, cookie: "tollgate-session", open: map[string]*session{}, links: map[string]session{}}
}

func (s *sessions) link(u User) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	token := rand.Text()
	s.links[token] = session{user: u, until: s.now().Add(linkFor)}
	return token
}

// redeem takes a link, which is gone then.
func (s *sessions) redeem(token string) (User, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	l, ok := s.links[token]
	delete(s.links, token)
	return l.user, ok
}

// begin opens a session and returns its cookie's value.
func (s *sessions) begin(u User) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	s.retire(u)
	id := rand.Text()
	s.open[id] = &session{user: u, until: s.now().Add(SessionFor)}
	return id
}

// retire ends a user's oldest session when they have many: nobody's but their own has to
// go for another. The lock is held.
func (s *sessions) retire(u User) {
	oldest, n := "", 0
	for id, o := range s.open {
		if o.user.Name != u.Name {
			continue
		}
		if n++; oldest == "" || o.until.Before(s.open[oldest].until) {
			oldest = id
		}
	}
	if n >= mostOfOne {
		delete(s.open, oldest)
	}
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
}

// find returns who a request is from.
func (s *sessions) find(r *http.Request) (id string, u User, ok bool) {
	k, err := r.Cookie(s.cookie)
	if err != nil {
		return "", User{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.open[k.Value]
	if found == nil || !s.now().Before(found.until) {
		return "", User{}, false
	}
	return k.Value, found.user, true
}

// say leaves a line for the session's next page.
func (s *sessions) say(id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.open[id]; found != nil {
		found.flash = text
	}
}

// said takes that line.
func (s *sessions) said(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.open[id]
	if found == nil {
		return ""
	}
	text := found.flash
	found.flash = ""
	return text
}

// sweep forgets what is over and, of too many, any. The lock is held.
func (s *sessions) sweep() {
	now := s.now()
	for id, o := range s.open {
		if !now.Before(o.until) || len(s.open) > mostSessions {
			delete(s.open, id)
		}
	}
	for id, l := range s.links {
		if !now.Before(l.until) || len(s.links) > mostSessions {
			delete(s.links, id)
		}
	}
}

// who is the user of a token. Every user's token is compared, in constant time.
func who(users []User, token string) (u User, ok bool) {
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	given := []byte(hex.EncodeToString(sum[:]))
	for _, known := range users {
		if known.SHA256 != "" && subtle.ConstantTimeCompare(given, []byte(strings.ToLower(known.SHA256))) == 1 {
			u, ok = known, true
		}
	}
	return u, ok
}
