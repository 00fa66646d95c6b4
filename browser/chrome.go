package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// Browser is one Chromium. Whoever looks at pages has a context of their own in it,
// with cookies of their own.
type Browser struct {
	ctx   context.Context
	close func()
}

// Launch starts it.
func Launch() (*Browser, error) {
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Flag("hide-scrollbars", true), chromedp.WSURLReadTimeout(startWithin))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // it does not start as root with one
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	b := &Browser{ctx, func() { cancel(); stop() }}
	if err := chromedp.Do(ctx); err != nil {
		b.Close()
		return nil, fmt.Errorf("start Chromium, Debian's package chromium: %w", err)
	}
	return b, nil
}

// Close ends it.
func (b *Browser) Close() { b.close() }

// Look is how a page is looked at.
type Look struct {
	Width int
	Dark  bool
}

func (l Look) String() string {
	theme := "light"
	if l.Dark {
		theme = "dark"
	}
	return fmt.Sprintf("%d-%s", l.Width, theme)
}

// Looks are the ways each page is looked at.
var Looks = []Look{{1280, false}, {1280, true}, {400, false}, {400, true}}

// within bounds one thing done in a browser.
const within = 30 * time.Second

// Tab is one page of somebody signed in, or of nobody yet.
type Tab struct {
	ctx   context.Context
	base  string // of the console
	stop  func()
	heard chan struct{} // closed when nothing more is heard

	mu       sync.Mutex // guards troubles
	troubles []string
}

// Tab opens a page in a context of its own, with or without JavaScript.
func (b *Browser) Tab(script bool) (*Tab, error) {
	ctx, stop := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t := &Tab{ctx: ctx, stop: stop, heard: make(chan struct{})}
	if err := chromedp.Do(ctx); err != nil { // before anything else: it makes the page
		stop()
		return nil, fmt.Errorf("open a page: %w", err)
	}
	go t.hear()
	err := t.Look(Looks[0])
	if err == nil {
		_, err = chromedp.Run(ctx, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !script}))
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close closes it.
func (t *Tab) Close() {
	t.stop()
	<-t.heard
}

// hear collects what a page's author would see in the browser's console, until the page
// is closed.
func (t *Tab) hear() {
	defer close(t.heard)
	for m, err := range chromedp.Console(t.ctx) {
		if err != nil {
			return
		}
		if m.IsException() || m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning {
			t.mu.Lock()
			t.troubles = append(t.troubles, fmt.Sprintf("%s (%s %s)", m, m.Source, m.URL))
			t.mu.Unlock()
		}
	}
}

// Troubles are the errors since the last time they were asked for.
func (t *Tab) Troubles() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.troubles
	t.troubles = nil
	return all
}

// command is one of the browser's own as an action.
func command[P, R any](c cdp.Command[P, R], p P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, p)
		return err
	})
}

// do does one thing in a tab, within a bound.
func do[T any](t *Tab, a chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	return chromedp.Run(ctx, a)
}

// arrive does what leads to another page and returns how that was answered.
func (t *Tab) arrive(steps ...chromedp.Action[chromedp.Void]) (*network.Response, error) {
	ctx, cancel := context.WithTimeout(t.ctx, within)
	defer cancel()
	return chromedp.RunResponse(ctx, steps...)
}

// Look changes the window's width and the theme.
func (t *Tab) Look(l Look) error {
	theme := "light"
	if l.Dark {
		theme = "dark"
	}
	_, err := do(t, chromedp.Steps(chromedp.EmulateViewport(int64(l.Width), 900),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: theme},
			{Name: "prefers-reduced-motion", Value: "reduce"}, // what moves has no colour yet that could be judged
		}})))
	return err
}

// Go loads an address: a path of the console, or a whole one.
func (t *Tab) Go(address string) (status int, err error) {
	if address[0] == '/' {
		address = t.base + address
	}
	r, err := do(t, chromedp.NavigateResponse(address))
	if err != nil {
		return 0, fmt.Errorf("load %s: %w", address, err)
	}
	return int(r.Status), nil
}

// SignIn uses a link, after which paths are those of its console.
func (t *Tab) SignIn(link string) error {
	u, err := url.Parse(link)
	if err != nil {
		return err
	}
	t.base = u.Scheme + "://" + u.Host
	status, err := t.Go(link)
	if err == nil && status != 200 {
		err = fmt.Errorf("the sign-in link leads to a page with status %d", status)
	}
	return err
}

// Eval evaluates an expression of the browser's own, which may be a promise. It works
// in pages without JavaScript too.
func Eval[T any](t *Tab, expression string) (T, error) {
	return do(t, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Screenshot is the whole page as a PNG.
func (t *Tab) Screenshot() ([]byte, error) { return do(t, chromedp.FullScreenshot(100)) }
