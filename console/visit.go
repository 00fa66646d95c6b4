package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/control"
	"tollgate/dispatcher"
)

// askWithin bounds one question to the control service.
const askWithin = 30 * time.Second

// visit is one request of somebody who is signed in.
type visit struct {
	*Console
	w       http.ResponseWriter
	r       *http.Request
	user    User
	session string
}

// signedIn hands a request to h, or asks who it is from.
func (c *Console) signedIn(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, u, ok := c.sessions.find(r)
		if !ok {
			if r.Method != http.MethodGet {
				c.askToSignIn(w, r, http.StatusUnauthorized, "Your session is over; nothing was done. Sign in and send it again.")
				return
			}
			http.Redirect(w, r, "/signin?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
			return
		}
		v := &visit{Console: c, w: w, r: r, user: u, session: id}
		if err := r.ParseForm(); err != nil { // a field that was cut off must not count as an empty one
			p := control.Problem{Code: http.StatusBadRequest, What: "nothing was done: what was sent could not be read: " + err.Error()}
			if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
				p.Code, p.Try = http.StatusRequestEntityTooLarge, "send less"
			}
			v.fail(&control.Failure{Problem: p})
			return
		}
		if err := h(v); err != nil {
			v.fail(err)
		}
	})
}

// client asks the control service in the user's name and with their role.
func (v *visit) client() *control.Client {
	return &control.Client{NATS: v.cfg.NATS, Subjects: v.cfg.Subjects, By: v.user.Name, Role: v.user.Role}
}

// ask sends a verb and reads the answer into out.
func (v *visit) ask(verb string, query, out any) error {
	ctx, cancel := context.WithTimeout(v.r.Context(), askWithin)
	defer cancel()
	return v.client().Ask(ctx, verb, query, out)
}

// cancel asks to cancel a call or a run.
func (v *visit) cancel(tenant string, q dispatcher.CancelRequest) (dispatcher.CancelReport, error) {
	ctx, cancel := context.WithTimeout(v.r.Context(), askWithin)
	defer cancel()
	return v.client().Cancel(ctx, tenant, q)
}

// param is a part of the address's query.
func (v *visit) param(name string) string { return v.r.URL.Query().Get(name) }

// field is a field of the form that was sent.
func (v *visit) field(name string) string { return v.r.PostFormValue(name) }

// cursor is where a list goes on; 0 is its beginning, as for anything that is no cursor.
func (v *visit) cursor() uint64 {
	n, _ := strconv.ParseUint(v.param("cursor"), 10, 64)
	return n
}

// show renders a page.
func (v *visit) show(template, title string, data any) error {
	return v.showStatus(http.StatusOK, template, title, data)
}

func (v *visit) showStatus(status int, template, title string, data any) error {
	return v.render(v.w, status, template, &page{Title: title, User: v.user, Flash: v.sessions.said(v.session), Data: data, URL: v.r.URL, Now: v.cfg.Now(), Version: v.cfg.Version})
}

// done ends a form: the browser goes on to a page that says what was done.
func (v *visit) done(to, text string) error {
	v.sessions.say(v.session, text)
	http.Redirect(v.w, v.r, local(to), http.StatusSeeOther)
	return nil
}

// errMissing is returned for an address that names nothing.
var errMissing = errors.New("there is no such page")

func notFound(*visit) error { return errMissing }

// trouble is what the page of an error says: what went wrong, and what to try.
type trouble struct {
	Status    int
	What, Try string
}

// fail shows why a request could not be answered.
func (v *visit) fail(err error) {
	t := trouble{Status: http.StatusInternalServerError, What: err.Error()}
	var f *control.Failure
	switch {
	case errors.As(err, &f):
		t = trouble{Status: f.Code, What: f.What, Try: f.Try}
	case errors.Is(err, nats.ErrMaxPayload):
		t = trouble{Status: http.StatusRequestEntityTooLarge, What: "nothing was done: that is more than the server takes in a message", Try: "send less"}
	case errors.Is(err, errMissing):
		t.Status, t.Try = http.StatusNotFound, "the navigation above has every page"
	case errors.Is(err, control.ErrNoDispatcher), errors.Is(err, context.DeadlineExceeded):
		t.Status, t.Try = http.StatusServiceUnavailable, "/readyz says what the dispatcher lacks; load the page again when it serves"
	}
	if t.Status < 400 || t.Status > 599 {
		t.Status = http.StatusInternalServerError
	}
	if err := v.showStatus(t.Status, "trouble", "That did not work", t); err != nil {
		v.cfg.Log.Error().Err(err).Str("page", v.r.URL.Path).Msg("console: page not rendered")
		http.Error(v.w, "this page could not be shown; the dispatcher's log says why", http.StatusInternalServerError)
	}
}
