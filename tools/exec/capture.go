package exec

import (
	"crypto/sha256"
	"errors"
	"hash"

	"tollgate/dispatcher/classify"
)

// maxTail is how much of what a command says for people is kept.
const maxTail = 2 << 10

// maxFlood is where a command that will not stop writing is cut off.
const maxFlood = 64 << 20

var errFlood = errors.New("exec: too much output")

// capture keeps the beginning of the output and the size and hash of all of it. It
// reads on past the limit, so that a command whose work is done can also end.
type capture struct {
	limit   int64
	size    int64
	sum     hash.Hash
	kept    []byte
	flooded bool
}

func newCapture(limit int64) *capture { return &capture{limit: limit, sum: sha256.New()} }

func (c *capture) Write(p []byte) (int, error) {
	if c.size += int64(len(p)); c.size > c.limit+maxFlood {
		c.flooded = true
		return 0, errFlood // the pipe is closed, and the command's next write kills it
	}
	c.sum.Write(p)
	if room := c.limit - int64(len(c.kept)); room > 0 {
		c.kept = append(c.kept, p[:min(room, int64(len(p)))]...)
	}
	return len(p), nil
}

func (c *capture) tooLarge() bool { return c.size > c.limit }

func (c *capture) oversize() classify.Verdict {
	o := classify.Oversize{Limit: c.limit, Size: c.size, Whole: !c.flooded}
	c.sum.Sum(o.Sum[:0])
	return classify.TooLarge(o)
}

// tail keeps the last bytes written to it.
type tail struct {
	max  int
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.max):]...)
	if extra := len(t.kept) - t.max; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}
