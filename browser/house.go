// Package browser drives a real Chromium through the console of a real `tollgate dev`
// with real calls: the pages are looked at as people see them, in both themes, wide and
// narrow, with and without JavaScript.
//
// It is a module of its own, so that what drives a browser gets into nobody's build. It
// knows the program only by its commands and its pages.
package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Build makes the program out of the checkout around this module.
func Build(ctx context.Context, dir string) (bin string, err error) {
	bin = filepath.Join(dir, "tollgate")
	c := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/tollgate")
	c.Dir = root()
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return bin, nil
}

// root is the checkout: the tests run in this module's folder, other programs at its top.
func root() string {
	if _, err := os.Stat("cmd/tollgate"); err == nil {
		return "."
	}
	return ".."
}

// House is a running `tollgate dev` in a folder of its own.
type House struct {
	dir, bin, tools string
	dev             *exec.Cmd
}

// startWithin bounds a start, on a machine that has much else to do.
const startWithin = 60 * time.Second

var toolsAt = regexp.MustCompile(`(?m)^tools +(http://[^ ]+):`)

// Open starts the program in dir and waits until it serves.
func Open(bin, dir string) (*House, error) {
	h := &House{dir: dir, bin: bin}
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	h.dev = exec.Command(bin, "dev", "--listen", "127.0.0.1:0")
	h.dev.Dir, h.dev.Stdout, h.dev.Stderr = dir, said, said
	if err := h.dev.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(startWithin); ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(said.Name())
		if at := toolsAt.FindSubmatch(text); err == nil && at != nil {
			h.tools = string(at[1])
			if _, err := h.Run("status"); err == nil {
				return h, nil
			}
		}
		if time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("tollgate dev does not serve within %s; it says:\n%s", startWithin, text), h.Close())
		}
	}
}

// Close stops the program as a terminal does.
func (h *House) Close() error {
	if err := h.dev.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return h.dev.Wait()
}

// Failed is a command that did not end with 0.
type Failed struct {
	Args   []string
	Code   int
	Stderr string
}

func (f *Failed) Error() string {
	return fmt.Sprintf("tollgate %s ended %d:\n%s", strings.Join(f.Args, " "), f.Code, f.Stderr)
}

// Run runs a command of the program and returns what it prints; a [*Failed] says how it
// ended otherwise than with 0.
func (h *House) Run(args ...string) (string, error) {
	url, err := os.ReadFile(filepath.Join(h.dir, ".tollgate", "url"))
	if err != nil {
		return "", fmt.Errorf("where is the server: %w", err)
	}
	c := exec.Command(h.bin, args...)
	var out, errs bytes.Buffer
	c.Dir, c.Stdout, c.Stderr = h.dir, &out, &errs
	c.Env = append(os.Environ(), "TOLLGATE_NATS_URL="+strings.TrimSpace(string(url)), "NO_COLOR=1")
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = &Failed{args, exit.ExitCode(), errs.String()}
	}
	return out.String(), err
}

// Link is an address that signs one browser in with a role, once.
func (h *House) Link(role string) (string, error) {
	out, err := h.Run("console", "--role", role)
	return strings.TrimSpace(out), err
}

// Heal makes every tool of the demonstration work; Break lets arguments choose again.
func (h *House) Heal() error { return h.tell("heal") }

// Break undoes Heal.
func (h *House) Break() error { return h.tell("break") }

func (h *House) tell(what string) error {
	r, err := http.Post(h.tools+"/"+what, "", nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("the tools answer %s to %s", r.Status, what)
	}
	return nil
}
