package browser

import (
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// Text is what the page says, as it is seen.
func (t *Tab) Text() (string, error) { return Eval[string](t, `document.body.innerText`) }

// Path is the page's address within the console.
func (t *Tab) Path() (string, error) { return Eval[string](t, `location.pathname + location.search`) }

// Follow clicks the link with a text, in the table row that says in when that is not
// "", and waits for where it leads.
func (t *Tab) Follow(link, in string) error {
	within := ""
	if in != "" {
		within = fmt.Sprintf(`//tr[contains(., %q)]`, in)
	}
	return t.press(fmt.Sprintf(`//main%s//a[normalize-space()=%q]`, within, link))
}

// Press clicks the button with a text, and waits for where it leads.
func (t *Tab) Press(button string) error {
	return t.press(fmt.Sprintf(`//main//button[normalize-space()=%q]`, button))
}

func (t *Tab) press(what string) error {
	r, err := t.arrive(chromedp.Click(what))
	if err != nil {
		at, _ := t.Path() // it is only told
		return fmt.Errorf("click %s on %s: %w", what, at, err)
	}
	if r.Status != 200 {
		says, _ := t.Text()
		return fmt.Errorf("click %s: the answer is %d:\n%s", what, r.Status, says)
	}
	return nil
}

// Fill types into the field of a name.
func (t *Tab) Fill(name, value string) error {
	field := fmt.Sprintf(`main form [name=%q]:not([type=hidden])`, name)
	_, err := do(t, chromedp.Steps(chromedp.Clear(field), chromedp.SendKeys(field, value)))
	if err != nil {
		return fmt.Errorf("type into %s: %w", name, err)
	}
	return nil
}

// Until waits until the page says something. With reload it is loaded again and again,
// as somebody without JavaScript would; else the page has to learn it by itself.
func (t *Tab) Until(says string, reload bool) error {
	text := ""
	for end := time.Now().Add(startWithin); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		var err error
		if text, err = t.Text(); err != nil {
			return err
		}
		if strings.Contains(text, says) {
			return nil
		}
		if !reload {
			continue
		}
		at, err := t.Path()
		if err == nil {
			_, err = t.Go(at)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("the page does not come to say %q; it says:\n%s", says, text)
}
